"""How fast MESHJOIN reads R, beside the disk alone: each in a process of its own, that finds the file cold or warm.

A file that a process has mapped stays in the system's cache whatever it is asked; a new process has nothing mapped.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from semistream.joins import minimum_task_bytes
from semistream.master_table.page_store import MasterTable
from semistream.simulation.config import SimulationConfig
from semistream.simulation.points import Point
from semistream.simulation.run import run
from semistream.workloads.synthetic import StreamRows
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

Side = Literal["disk", "meshjoin"]
_READ_BYTES = 4 << 20


def measure(
    store: Path, *, key: str, memory_bytes: int, rounds: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Medians over rounds in which the sides take turns: bytes/s, cold and warm, and meshjoin's share of the disk's."""
    found: dict[str, Any] = {}
    sides: tuple[Side, ...] = ("disk", "meshjoin")
    for state in ("cold", "warm"):
        rates: dict[Side, list[float]] = {side: [] for side in sides}
        for number in range(rounds):
            say(f"reading R, {state}: round {number + 1} of {rounds}")
            for side in sides if number % 2 == 0 else sides[::-1]:
                rates[side].append(_in_a_process(side, store, key, memory_bytes, cold=state == "cold"))
        disk, mesh = (statistics.median(rates[side]) for side in sides)
        found[state] = {
            "disk_bytes_s": disk,
            "meshjoin_bytes_s": mesh,
            "share": mesh / disk,
            "disk_rounds": rates["disk"],
            "meshjoin_rounds": rates["meshjoin"],
        }
    return found


def _in_a_process(side: Side, store: Path, key: str, memory_bytes: int, *, cold: bool) -> float:
    arguments = {"side": side, "store": str(store), "key": key, "memory": memory_bytes, "cold": cold}
    ran = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(arguments)], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"the measurement of {side} failed: {ran.stderr.strip()[-500:]}")
    return float(ran.stdout)


def bytes_per_s(side: Side, store: Path, *, key: str, memory_bytes: int, cold: bool) -> float:
    files = sorted(store.glob("shards/*/*.pages"))
    if side == "meshjoin":
        _warm_up()
    for file in files:
        _forget(file) if cold else _read(file)
    if side == "disk":
        started = time.perf_counter()
        size = sum(_read(file) for file in files)
        return size / (time.perf_counter() - started)
    table = MasterTable.open(store)
    stream = StreamRows(keys=ZipfKeys(ZipfConfig(keys=table.rows, exponent=1.0))).source
    config = SimulationConfig(
        algorithm="meshjoin",
        memory_bytes=memory_bytes,
        clock="wall",
        intervals=1,
        interval_rows=1,
        interval_cycles=1,
        batch_rows=4096,
    )
    report = run(table, stream, config, on={"key": key})
    return report.counters.bytes_read / report.seconds


def _warm_up() -> None:
    """Compiled code is loaded before the clock starts."""
    point = Point(table_rows=10_000, skew=1.0, memory_share=1.0)
    memory = max(point.memory_bytes, minimum_task_bytes(point.table, [0], "meshjoin"))
    run(
        point.table,
        point.stream,
        SimulationConfig(algorithm="meshjoin", memory_bytes=memory, intervals=1, interval_cycles=1),
    )


def _read(path: Path) -> int:
    """The whole file, in large pieces."""
    buffer, done = bytearray(_READ_BYTES), 0
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while count := file.readinto(buffer):
            done += count
    return done


def _forget(path: Path) -> None:
    """The system's cache gives the file up; what was not written yet has to be, first."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    rate = bytes_per_s(
        asked["side"],
        Path(asked["store"]),
        key=asked["key"],
        memory_bytes=asked["memory"],
        cold=asked["cold"],
    )
    sys.stdout.write(f"{rate}\n")
