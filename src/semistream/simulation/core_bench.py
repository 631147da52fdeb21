"""`make bench-core`: how fast the core is on one core of this machine, on the wall clock, beside what it has to reach.

Parts: `speed` (adaptive, warm, and the in-memory joins beside it), `reads` (meshjoin's read rate beside the disk's),
`steps` (the overhead of hybridjoin's loop), `grid` (every algorithm over skew, memory and rows per key), `virtual`
(the same on the virtual clock, for every device profile and this machine's own).
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from semistream.cost_model.calibration import calibrated
from semistream.cost_model.profiles import NAMED_PROFILES
from semistream.errors import ConfigError
from semistream.joins import RunningJoin, resolve_shape, start_join
from semistream.simulation import core_reads, rivals
from semistream.simulation.core_data import CoreData, Say, prepare
from semistream.simulation.core_grid import GridConfig, measure_grid, measure_virtual_grid
from semistream.waiting_room.queue_room import waiting_row_bytes
from semistream.workloads.tables import KEY, TABLE_ROW_BYTES

Part = Literal["reads", "speed", "steps", "grid", "virtual"]
PARTS: tuple[Part, ...] = (
    "reads",
    "speed",
    "steps",
    "grid",
    "virtual",
)  # reads first: a mapped file stays warm
_STEP_BATCH_ROWS = 8192
_ROW_BYTES_IN_MEMORY = 28  # a stream row of 20 bytes and its key


@dataclass(frozen=True, kw_only=True)
class CoreBenchConfig:
    """The issue's point by default. `warm_up_per_cached_row`: as in the Spark benchmark, where it is explained."""

    parts: tuple[Part, ...] = PARTS
    table_rows: int = 10_000_000
    skew: float = 1.0
    memory_share: float = 0.05
    warm_up_per_cached_row: int = 100
    batch_rows: int = 1_000_000
    rounds: int = 7
    steps_s: float = 0.5
    grid: GridConfig = field(default_factory=GridConfig)
    virtual_rows: int = 500_000
    seed: int = 0


def bench(out: Path, config: CoreBenchConfig, *, say: Say) -> dict[str, Any]:
    """Runs the parts, and writes what was found to `out` after each; results of other parts that are there stay.
    The table and its store are kept in `bench-data` beside `out`."""
    pa.set_cpu_count(1)
    result: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    result["machine"] = {"processors": os.cpu_count(), "python": platform.python_version()}
    out.parent.mkdir(parents=True, exist_ok=True)
    data_home = out.parent / "bench-data"
    needs_table = set(config.parts) & {"reads", "speed", "steps"}
    data = None
    if needs_table:
        data = prepare(data_home, rows=config.table_rows, skew=config.skew, seed=config.seed, say=say)
    for part in PARTS:
        if part not in config.parts:
            continue
        load, started = os.getloadavg()[0], time.perf_counter()
        if part == "grid":
            found: Any = measure_grid(data_home, config.grid, say=say)
        elif part == "virtual":
            devices = (*NAMED_PROFILES.values(), calibrated())
            found = measure_virtual_grid(
                devices, replace(config.grid, table_rows=config.virtual_rows), say=say
            )
        else:
            assert data is not None
            found = _PARTS[part](data, config, say)
        result[part] = {
            **found,
            "load_before": round(load, 2),
            "load_after": round(os.getloadavg()[0], 2),
            "took_s": round(time.perf_counter() - started, 1),
        }
        out.write_text(json.dumps(result, indent=2) + "\n")
    return result


def _reads(data: CoreData, config: CoreBenchConfig, say: Say) -> dict[str, Any]:
    return core_reads.measure(
        data.store,
        key=KEY,
        memory_bytes=data.memory_bytes(config.memory_share),
        rounds=config.rounds,
        say=say,
    )


def _speed(data: CoreData, config: CoreBenchConfig, say: Say) -> dict[str, Any]:
    """Two ways in turns: the stream pushed on and on, and every batch flushed, as a micro-batch is."""
    memory = data.memory_bytes(config.memory_share)
    with _started(data, memory) as join:
        warm_up = config.warm_up_per_cached_row * (memory // TABLE_ROW_BYTES)
        batches = data.batches(config.batch_rows)
        for number in range(-(-warm_up // config.batch_rows)):
            say(f"adaptive: warming up, {number * config.batch_rows:,} of {warm_up:,} rows")
            _drop(join.push(next(batches)))
        taken: dict[str, list[tuple[float, float]]] = {"pushed": [], "flushed": []}
        before = (join.metrics.hits, join.metrics.misses, join.metrics.pages_read)
        for number in range(2 * config.rounds):
            say(f"adaptive: batch {number + 1} of {2 * config.rounds}")
            name = "flushed" if number % 2 else "pushed"
            batch = next(batches)
            wall, processor = time.perf_counter(), time.process_time()
            _drop(join.push(batch))
            if name == "flushed":
                _drop(join.flush())
            taken[name].append((time.perf_counter() - wall, time.process_time() - processor))
        hits, misses, pages = (
            after - at
            for after, at in zip(
                (join.metrics.hits, join.metrics.misses, join.metrics.pages_read), before, strict=True
            )
        )
        found: dict[str, Any] = {
            "memory_bytes": memory,
            "warm_up_rows": warm_up,
            "hit_ratio": hits / max(1, hits + misses),
            "pages_read": pages,
        }
        for name, pairs in taken.items():
            found[f"adaptive_{name}_rows_s"] = config.batch_rows / statistics.median(
                wall for wall, _ in pairs
            )
            # What it would be if nothing else ran on this machine.
            found[f"adaptive_{name}_rows_processor_s"] = config.batch_rows / statistics.median(
                processor for _, processor in pairs
            )
        found["in_memory"] = rivals.measure(
            join, data, batch_rows=config.batch_rows, rounds=config.rounds, say=say
        )
        join.finish()
    return found


def _steps(data: CoreData, config: CoreBenchConfig, say: Say) -> dict[str, Any]:
    """At the benchmark's memory, where many rows leave with each page, and at a twentieth of it, where few do."""
    found = {}
    for name, share in (("few_rows", config.memory_share / 20), ("many_rows", config.memory_share)):
        say(f"hybridjoin: {name.replace('_', ' ')} a step")
        found[name] = _step(data, config, data.memory_bytes(share))
    return found


def _step(data: CoreData, config: CoreBenchConfig, memory_bytes: int) -> dict[str, Any]:
    """Seconds per step beside those it spent on reading and on looking the page's rows up, the room being full."""
    waiting = memory_bytes / waiting_row_bytes(_ROW_BYTES_IN_MEMORY)
    batches = data.batches(_STEP_BATCH_ROWS)
    rounds: list[tuple[float, float, float]] = []  # seconds of a step, of its reading, of the processor
    with _started(data, memory_bytes, "hybridjoin") as join:
        metrics = join.metrics
        while metrics.rows_in < 1.2 * waiting:
            _drop(join.push(next(batches)))
        filled, steps_before = metrics.rows_in, metrics.steps
        for _ in range(config.rounds):
            steps, read_ns, wall, processor = metrics.steps, metrics.read_ns, 0.0, 0.0
            while wall < config.steps_s:
                batch = next(batches)
                started, worked = time.perf_counter(), time.process_time()
                _drop(join.push(batch))
                wall += time.perf_counter() - started
                processor += time.process_time() - worked
            steps = metrics.steps - steps
            rounds.append((wall / steps, (metrics.read_ns - read_ns) / 1e9 / steps, processor / steps))
        all_steps, rows = metrics.steps - steps_before, metrics.rows_in - filled
        join.finish()
    whole, reading, processor = (1e6 * statistics.median(column) for column in zip(*rounds, strict=True))
    overheads = [1e6 * (step - read) for step, read, _ in rounds]
    return {
        "memory_bytes": memory_bytes,
        "steps": all_steps,
        "overhead_us": statistics.median(overheads),
        "overhead_rounds_us": overheads,
        "step_us": whole,
        "read_us": reading,
        "processor_us": processor,  # of the whole step: what it would take if nothing else ran here
        "rows_per_step": rows / all_steps,
    }


_PARTS: dict[str, Callable[[CoreData, CoreBenchConfig, Say], dict[str, Any]]] = {
    "reads": _reads,
    "speed": _speed,
    "steps": _steps,
}


def _started(data: CoreData, memory_bytes: int, algorithm: str = "adaptive") -> RunningJoin:
    table = data.open()
    shape = resolve_shape(data.stream.schema, table, on=KEY, how="inner", columns=None, suffix=None)
    return start_join(table, shape, algorithm=algorithm, memory_bytes=memory_bytes)


def _drop(output: Iterator[pa.RecordBatch]) -> None:
    for _ in output:
        pass


def parts(names: Sequence[str] | None) -> tuple[Part, ...]:
    """The parts of these names, in the order in which they run; all without names. ConfigError for other names."""
    if unknown := sorted(set(names or ()) - set(PARTS)):
        raise ConfigError(
            f"the benchmark has no part {', '.join(unknown)}.", hint=f"choose from: {', '.join(PARTS)}."
        )
    return tuple(part for part in PARTS if not names or part in names)
