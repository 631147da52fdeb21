"""The benchmark: our join, Spark's own stream-static join and a bare pipe over one and the same stream.

The three sides run in one Spark session, read the same Parquet files through the same file source
(one file set a trigger, so one batch is exactly `batch_rows` rows), and write to the noop sink. They
take turns in short segments, in an order that rotates from round to round; every segment restarts the
query from its own checkpoint. A batch's time is what the query itself reports (triggerExecution),
and what is shown is the median over all measured batches.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from rich.console import Console

import semistream as ss
from semistream.spark.bench_report import checks, results_table, short_count
from semistream.spark.session import COMPARISON_CONF, local_session
from semistream.workloads.tables import (
    KEY,
    TABLE_ROW_BYTES,
    StreamConfig,
    TableConfig,
    table_batches,
    write_stream,
    write_table,
)
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

CORES = 2
TABLE_ROWS = (1_000_000, 10_000_000)
TABLE_ROWS_LARGE = (100_000_000,)
BATCH_ROWS = (100_000, 1_000_000)
MEMORY_SHARE = 0.05
WARM_BATCH_ROWS = 1_000_000

FileSet = list[Path]

# Turns are read from their query's progress after they end.
_SESSION_CONF = COMPARISON_CONF | {"spark.sql.streaming.numRecentProgressUpdates": "10000"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long to measure.

    Parameters
    ----------
    rounds: how often each side gets its turn.
    settle_batches: batches of the measured size each side runs before the first round.
    settle_rounds: rounds before those that are measured. Where the files of the sides do not fit the system's
        cache together, it takes some rounds until the system has learned which of them are used again.
    lead_in_batches: batches at the start of each turn that are not measured: a restarted query plans
        anew, and the other sides have had the processor's and the system's caches meanwhile.
    measured_batches: batches measured in each turn.
    warm_up_per_cached_row, warm_up_rows_min: stream rows that fill our front stage beforehand, in
        batches of 1 M rows. Even a cache with exact counts of all it has seen needs 60 rows per cached
        row to come within 1 % of the best hit ratio at Zipf 1.0 (20 rows: within 3 %), and what is to be
        measured is a warm one.
    """

    rounds: int = 4
    settle_batches: int = 4
    settle_rounds: int = 0
    lead_in_batches: int = 2
    measured_batches: int = 4
    warm_up_per_cached_row: int = 100
    warm_up_rows_min: int = 20_000_000

    @property
    def turn_batches(self) -> int:
        return self.lead_in_batches + self.measured_batches

    @property
    def stream_batches(self) -> int:
        return self.settle_batches + (self.settle_rounds + self.rounds) * self.turn_batches

    def warm_batches(self, cached_rows: int) -> int:
        rows = max(self.warm_up_rows_min, self.warm_up_per_cached_row * cached_rows)
        return -(-rows // WARM_BATCH_ROWS)


PLAN = Plan()
# A batch of Spark's takes many seconds here.
PLAN_LARGE = Plan(rounds=4, settle_rounds=2, settle_batches=1, lead_in_batches=1, measured_batches=3)


def run(
    out: Path,
    *,
    large: bool = False,
    plan: Plan | None = None,
    table_rows: Sequence[int] | None = None,
    batch_rows: Sequence[int] = BATCH_ROWS,
    reuse_stores: bool = False,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Run every case, write the results to `out` as JSON and print them with the targets met or not.

    Generated tables and streams stay in `bench-data` beside `out` and are reused while their config is
    the same. A store is prepared anew by every run, unless `reuse_stores`.

    Each result holds, next to the sizes, medians per batch (`*_batch_s`) and rows per second
    (`*_rows_s`) of the three sides. `hit_ratio` is the share of the measured stream rows that our
    front stage answered. `optimal_hit_ratio` is the best that any cache of `memory_bytes` that does not
    know the future could reach on these very rows: the share of them whose key is among the
    memory_bytes / 120 most probable ones, as if a cached row cost its values and nothing else.
    """
    sizes = table_rows or (TABLE_ROWS_LARGE if large else TABLE_ROWS)
    plan = plan or (PLAN_LARGE if large else PLAN)
    console = console or Console()
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.parent / "bench-work"
    spark = local_session("semistream-bench", cores=CORES, driver_memory="4g", conf=_SESSION_CONF)
    results: list[dict[str, Any]] = []
    try:
        for rows in sizes:
            bench = _TableBench(spark, rows, plan, out.parent / "bench-data", work, console)
            bench.prepare(reuse_store=reuse_stores)
            results += bench.measure(batch_rows)
            # Written after every table, so that a run cut short leaves what it had.
            out.write_text(json.dumps(results, indent=2) + "\n")
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    console.print(results_table(results))
    for name, met, found in checks(results):
        console.print(f"{'[green]met    ' if met else '[red]not met'}[/] {name}: {found}", highlight=False)
    return results


@dataclass
class _Side:
    """One contestant: a streaming query that is stopped after every turn and goes on from its checkpoint."""

    name: str
    join: Callable[[DataFrame], DataFrame]
    warmed_files: Sequence[Path]
    home: Path
    batch_s: list[float] = field(default_factory=list)
    metrics: list[Any] = field(default_factory=list)

    def turn(self, spark: SparkSession, schema: StructType, file_sets: list[FileSet], skip: int) -> None:
        """Run these file sets, one a batch; keep times and metrics of all but the first `skip` batches."""
        inbox = self.home / "inbox"
        shutil.rmtree(inbox, ignore_errors=True)
        inbox.mkdir(parents=True)
        for path in [path for files in file_sets for path in files]:
            # The inbox holds only this turn's files: listing them is not what we measure.
            os.link(path, inbox / f"{path.parent.name}-{path.name}")
        files_per_batch = len(file_sets[0])
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_batch)
        query = (
            self.join(stream.parquet(str(inbox)))
            .writeStream.format("noop")
            .option("checkpointLocation", str(self.home / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
        if len(progress) != len(file_sets):
            raise RuntimeError(
                f"{self.name}: {len(file_sets)} batches expected, {len(progress)} were reported"
            )
        kept = progress[skip:]
        self.batch_s += [p["durationMs"]["triggerExecution"] / 1000 for p in kept]
        if self.name == "ours" and kept:
            first = kept[0]["batchId"]
            self.metrics += [m for m in ss.metrics(query) if m.batch_id >= first]


class _TableBench:
    """All cases of one table: its files, its store, its streams, and one query per side for all of them."""

    def __init__(
        self, spark: SparkSession, rows: int, plan: Plan, data: Path, work: Path, console: Console
    ) -> None:
        self.spark, self.rows, self.plan, self.console = spark, rows, plan, console
        self.memory_bytes = int(rows * TABLE_ROW_BYTES * MEMORY_SHARE)
        self.cached_rows = self.memory_bytes // TABLE_ROW_BYTES
        self.zipf = ZipfConfig(keys=rows, exponent=1.0)
        self.data = data / short_count(rows).replace(" ", "")
        self.work = work / short_count(rows).replace(" ", "")
        shutil.rmtree(self.work, ignore_errors=True)
        self.prepare_s = 0.0

    def prepare(self, *, reuse_store: bool) -> None:
        table, store = self.data / "table", self.data / "store"
        self._say("generating the table and the warm-up stream, or reusing them")
        table_files = write_table(TableConfig(rows=self.rows), table)
        warm_batches = self.plan.warm_batches(self.cached_rows)
        self.warm_sets = self._stream("warm", WARM_BATCH_ROWS, warm_batches, first_batch=0)
        static = self.spark.read.parquet(str(table))
        if not (reuse_store and store.exists()):
            self._say("preparing the store")
            # An overwritten version stays for its readers, and a large table has no room twice.
            shutil.rmtree(store, ignore_errors=True)
            start = time.perf_counter()
            ss.prepare(static, store, key=KEY, shards=CORES)
            self.prepare_s = time.perf_counter() - start
        store_files = sorted(path for path in store.rglob("*") if path.is_file())
        self.schema = self.spark.read.parquet(str(self.warm_sets[0][0])).schema
        master = ss.open(str(store))
        output = StructType(self.schema.fields + [f for f in static.schema.fields if f.name != KEY])
        self.ours = _Side(
            "ours",
            lambda stream: ss.join(stream, master, on=KEY, memory=self.memory_bytes),
            store_files,
            self.work / "ours",
        )
        sparks = _Side("spark", lambda stream: stream.join(static, KEY), table_files, self.work / "spark")
        pipe = _Side("pipe", lambda stream: stream.mapInArrow(_pad, output), [], self.work / "pipe")
        self.sides = [self.ours, sparks, pipe]
        self._verify()
        self._say(f"filling our front stage with {warm_batches} M stream rows")
        self._turn(self.ours, self.warm_sets, skip=len(self.warm_sets))

    def measure(self, batch_rows: Sequence[int]) -> list[dict[str, Any]]:
        return [self._measure_case(rows) for rows in batch_rows]

    def _measure_case(self, batch_rows: int) -> dict[str, Any]:
        plan = self.plan
        # Rows the warm-up has not shown: other batch numbers are other draws.
        sets = self._stream(
            f"stream-{short_count(batch_rows)}", batch_rows, plan.stream_batches, first_batch=10**6
        )
        turns, measured_sets = sets[plan.settle_batches :], list[FileSet]()
        for side in self.sides:
            self._say(f"{short_count(batch_rows)} batches: settling {side.name}")
            side.batch_s, side.metrics = [], []
            self._turn(side, sets[: plan.settle_batches], skip=plan.settle_batches)
        for number in range(-plan.settle_rounds, plan.rounds):
            measured = number >= 0
            what = f"round {number + 1} of {plan.rounds}" if measured else "a round of settling"
            self._say(f"{short_count(batch_rows)} batches: {what}")
            turn, turns = turns[: plan.turn_batches], turns[plan.turn_batches :]
            measured_sets += turn[plan.lead_in_batches :] if measured else []
            at = number % len(self.sides)
            for side in self.sides[at:] + self.sides[:at]:
                self._turn(side, turn, skip=plan.lead_in_batches if measured else plan.turn_batches)
        return self._result(batch_rows, measured_sets)

    def _verify(self) -> None:
        """Fast is nothing if wrong: one batch of ours must be the bag of rows that Spark's join gives."""
        self._say("verifying one batch against Spark's batch join")
        batch = self.spark.read.schema(self.schema).parquet(*map(str, self.warm_sets[0]))
        ours, sparks = (_count_and_checksum(side.join(batch)) for side in self.sides[:2])
        if ours != sparks:
            raise RuntimeError(f"ours and Spark's join differ: (rows, checksum) {ours} and {sparks}")

    def _result(self, batch_rows: int, measured_sets: list[FileSet]) -> dict[str, Any]:
        batch_s = {side.name: statistics.median(side.batch_s) for side in self.sides}
        metrics = self.ours.metrics
        rows_in = sum(m.rows_in for m in metrics)
        expected = batch_rows * len(measured_sets)
        if rows_in != expected or sum(m.rows_out for m in metrics) != expected:
            # Every key of the stream is in the table once, so each row in is one row out.
            raise RuntimeError(
                f"{expected} rows were sent, but our metrics report {rows_in} in: {metrics[:3]}"
            )
        return {
            "table_rows": self.rows,
            "batch_rows": batch_rows,
            "memory_bytes": self.memory_bytes,
            **{f"{name}_rows_s": round(batch_rows / seconds) for name, seconds in batch_s.items()},
            "ratio": round(batch_s["spark"] / batch_s["ours"], 2),
            "ratio_by_round": self._ratio_by_round(),
            **{f"{name}_batch_s": seconds for name, seconds in batch_s.items()},
            "hit_ratio": sum(m.hits for m in metrics) / rows_in,
            "optimal_hit_ratio": optimal_hit_ratio(self.zipf, measured_sets, self.cached_rows),
            "pages_read_per_batch": sum(m.pages_read for m in metrics) / len(metrics),
            "bytes_read_per_batch": sum(m.bytes_read for m in metrics) / len(metrics),
            "budget_peak_bytes": max(m.budget_peak_bytes for m in metrics),
            "front_stage_bytes": metrics[-1].front_stage_bytes,
            "warm_up_rows": len(self.warm_sets) * WARM_BATCH_ROWS,
            "measured_batches": len(measured_sets),
            "prepare_s": round(self.prepare_s, 1),
            **{f"{side.name}_batches_s": side.batch_s for side in self.sides},
        }

    def _ratio_by_round(self) -> list[float]:
        """How far the ratio strays while the machine does other things: each round on its own."""
        size = self.plan.measured_batches
        ours, sparks = (
            [statistics.median(side.batch_s[at : at + size]) for at in range(0, len(side.batch_s), size)]
            for side in self.sides[:2]
        )
        return [round(s / o, 2) for s, o in zip(sparks, ours, strict=True)]

    def _turn(self, side: _Side, file_sets: list[FileSet], *, skip: int) -> None:
        # Where table and store do not fit the page cache together, each side would otherwise pay for
        # the turns of the other: both find their own files cached, as far as they fit.
        for path in side.warmed_files:
            _read_through(path)
        side.turn(self.spark, self.schema, file_sets, skip)

    def _stream(self, name: str, batch_rows: int, batches: int, *, first_batch: int) -> list[FileSet]:
        config = StreamConfig(
            keys=self.zipf,
            batch_rows=batch_rows,
            batches=batches,
            first_batch=first_batch,
            files_per_batch=CORES,
        )
        return write_stream(config, self.data / name.replace(" ", ""))

    def _say(self, text: str) -> None:
        self.console.print(
            f"{time.strftime('%H:%M:%S')} {short_count(self.rows)} rows: {text}", highlight=False
        )


def optimal_hit_ratio(zipf: ZipfConfig, file_sets: Iterable[FileSet], cached_rows: int) -> float:
    """The share of the rows in these files whose key is one of the `cached_rows` most probable keys.

    No cache of that many rows can be expected to do better without knowing the future.
    """
    keys = ZipfKeys(zipf)
    rows = hits = 0
    for path in (path for files in file_sets for path in files):
        ranks = keys.ranks_of(pq.read_table(path, columns=[KEY])[KEY].to_numpy())
        rows += len(ranks)
        hits += int((ranks < cached_rows).sum())
    return hits / rows


def _count_and_checksum(rows: DataFrame) -> Row:
    return rows.agg(F.count("*"), F.sum(F.xxhash64(*rows.columns).cast("decimal(38,0)"))).collect()[0]


def _read_through(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def _pad(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The bare pipe: every row leaves with the columns of some master row, none is looked up."""
    pool = _padding_pool()
    for batch in batches:
        if batch.num_rows <= pool.num_rows:
            padding = pool.slice(0, batch.num_rows)
        else:
            padding = pool.take(pa.array(np.arange(batch.num_rows) % pool.num_rows))
        names = batch.schema.names + padding.schema.names
        yield pa.RecordBatch.from_arrays(batch.columns + padding.columns, names=names)


@cache
def _padding_pool() -> pa.RecordBatch:
    """65,536 master rows without their key; a Python worker makes them once."""
    return next(table_batches(TableConfig(rows=1 << 16))).drop_columns([KEY])
