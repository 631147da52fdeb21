"""The demo: make the inputs, prepare, join on Spark, verify, and run Spark's own join over the same stream.

Both joins read the same Parquet files with the same settings, one file set a micro-batch, and write to
Spark's noop sink. A count and a checksum of every row are taken as it leaves (`observe`), so all of the
output is verified and no disk is measured.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

import semistream as ss
from semistream.core.budget import format_bytes
from semistream.core.metrics import JoinMetrics
from semistream.errors import SemistreamError
from semistream.joins import minimum_bytes
from semistream.spark.demo_data import FILES_PER_BATCH, clean_directory, write_customers, write_orders
from semistream.spark.follow import Batch, follow
from semistream.spark.quiet import available_cores, quiet_session
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

MEMORY_SHARE = 0.05
STREAM_KEY, TABLE_KEY = "custkey", "c_custkey"
_OUTPUT = "output"
# As in the benchmark: without the first, Spark would sort the whole table for every batch; the second
# saves a dozen processes a batch on a local path. Both sides run with them.
_SESSION_CONF = {
    "spark.sql.autoBroadcastJoinThreshold": "64MB",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Parameters
    ----------
    scale: TPC-H's scale factor; 1 is 150,000 customers of about 170 bytes.
    batches, batch_rows: micro-batches of the order stream, and orders in each.
    """

    scale: float = 10
    batches: int = 40
    batch_rows: int = 100_000


@dataclass
class Run:
    """What one streaming query did, and the (rows, checksums) of all it put out."""

    name: str
    batches: list[Batch] = field(default_factory=list)

    @property
    def batch_s(self) -> float:
        return statistics.median(batch.seconds for batch in self.batches)

    @property
    def output(self) -> tuple[int, ...]:
        rows = [batch.observed[_OUTPUT] for batch in self.batches]
        return tuple(sum(column) for column in zip(*(_counted(row) for row in rows), strict=True))

    @property
    def joined(self) -> JoinMetrics:
        total = JoinMetrics()
        for batch in self.batches:
            total.add(batch.join or JoinMetrics())
        return total


def run_demo(config: DemoConfig, directory: Path, *, console: Console, debug: bool = False) -> None:
    """Runs all steps, prints what they do and find. SemistreamError if the outputs differ.

    All files are in `directory`, which an earlier demo may have left; about 300 MB.
    """
    steps = _Steps(console)
    clean_directory(directory)
    with steps.step("making TPC-H's customer table with tpchgen-cli") as done:
        customers = write_customers(directory / "customers", scale=config.scale)
        done(f"{customers:,} customers")
    keys = ZipfKeys(ZipfConfig(keys=customers, exponent=1.0))
    with steps.step(
        "making a stream of orders; few customers order often, most hardly ever (Zipf's law)"
    ) as done:
        orders = sum(
            write_orders(directory / "orders", keys, batches=config.batches, batch_rows=config.batch_rows)
        )
        done(f"{orders:,} orders in {config.batches} micro-batches")
    with steps.step("starting Spark on this machine") as done:
        spark = quiet_session("semistream-demo", debug=debug, conf=_SESSION_CONF)
        done(f"version {spark.version}, {available_cores()} cores")
    try:
        _Joins(spark, directory, config, keys, steps).run()
    finally:
        spark.stop()


class _Joins:
    """The steps that need Spark."""

    def __init__(
        self, spark: SparkSession, directory: Path, config: DemoConfig, keys: ZipfKeys, steps: _Steps
    ) -> None:
        self.spark, self.config, self.keys, self.steps = spark, config, keys, steps
        self.store = directory / "store"
        self.customers = spark.read.parquet(str((directory / "customers").absolute()))
        self.orders_path = str((directory / "orders").absolute())
        self.orders = spark.read.parquet(self.orders_path)

    def run(self) -> None:
        with self.steps.step("preparing the master table: sharded, sorted, in pages with checksums") as done:
            table = ss.prepare(self.customers, self.store, key=TABLE_KEY, overwrite=True)
            done(f"{table.pages:,} pages in {table.shards} shards, {format_bytes(table.bytes)}")
        memory = max(int(table.bytes * MEMORY_SHARE), minimum_bytes(table, available_cores()))
        ours = self._stream(
            f"joining the stream with ss.join, memory = {format_bytes(memory)}, {memory / table.bytes:.0%} of the table",
            "semistream",
            lambda orders: ss.join(orders, table, on={STREAM_KEY: TABLE_KEY}, memory=memory),
        )
        with self.steps.step("verifying: the same join as a plain batch join of Spark") as done:
            expected = _counted(
                self._sparks_own(self.orders).agg(*_checksums(self.orders, self.customers)).collect()[0]
            )
            verify_output(ours, expected)
            done(f"equal: {expected[0]:,} rows, checksum {expected[1]:x}-{expected[2]:x}")
        sparks = self._stream(
            "joining the stream with Spark's own stream-static join", "Spark", self._sparks_own
        )
        verify_output(sparks, expected)
        cached_rows = memory * table.rows // table.bytes
        self.steps.console.print(
            "",
            results(ours, sparks, self.config.batch_rows, self.keys.top_probability(cached_rows)),
            sep="\n",
        )

    def _sparks_own(self, orders: DataFrame) -> DataFrame:
        customers = self.customers
        return orders.join(customers, orders[STREAM_KEY] == customers[TABLE_KEY]).drop(TABLE_KEY)

    def _stream(self, title: str, name: str, join: Callable[[DataFrame], DataFrame]) -> Run:
        """Runs one side over the whole stream, with a live line; its batches and what they counted."""
        reader = self.spark.readStream.schema(self.orders.schema).option(
            "maxFilesPerTrigger", FILES_PER_BATCH
        )
        joined = join(reader.parquet(self.orders_path)).observe(
            _OUTPUT, *_checksums(self.orders, self.customers)
        )
        run = Run(name)
        with self.steps.bar(title, total=self.config.batches * self.config.batch_rows) as show:
            query = joined.writeStream.format("noop").trigger(availableNow=True).start()
            for batch in follow(query):
                run.batches.append(batch)
                show(batch)
        return run


def _checksums(orders: DataFrame, customers: DataFrame) -> list[Column]:
    """A count, and the sums of both halves of every row's hash: free of order, and within 64 bits."""
    names = [*orders.columns, *(name for name in customers.columns if name != TABLE_KEY)]
    row_hash = F.xxhash64(*names)
    low, high = row_hash.bitwiseAND(0xFFFF_FFFF), F.shiftrightunsigned(row_hash, 32)
    return [F.count(F.lit(1)).alias("rows"), F.sum(low).alias("low"), F.sum(high).alias("high")]


def _counted(row: Row) -> tuple[int, ...]:
    return tuple(int(row[name] or 0) for name in ("rows", "low", "high"))


def verify_output(run: Run, expected: tuple[int, ...]) -> None:
    if run.output != expected:
        raise SemistreamError(
            f"the output of {run.name} is wrong: (rows, checksums) {run.output} instead of {expected}.",
            hint="please report this with your versions of Spark and semistream.",
        )


def results(ours: Run, sparks: Run, batch_rows: int, optimum: float) -> Table:
    """The short table at the end."""
    joined, last = ours.joined, ours.batches[-1].join or JoinMetrics()
    peak = max((b.join.budget_peak_bytes, b.join.budget_bytes) for b in ours.batches if b.join)
    table = Table(
        "",
        "semistream",
        "Spark stream-static",
        title=f"batches of {batch_rows:,} orders",
        title_justify="left",
    )
    table.columns[1].justify = table.columns[2].justify = "right"
    both = (ours, sparks)
    table.add_row("rows/s", *(f"{batch_rows / run.batch_s:,.0f}" for run in both))
    table.add_row("batch latency (median)", *(f"{run.batch_s * 1000:,.0f} ms" for run in both))
    table.add_row("ratio", f"{sparks.batch_s / ours.batch_s:.1f} x", "1")
    table.add_section()
    table.add_row("hit ratio, whole run", f"{joined.hit_ratio:.3f}", "")
    table.add_row("hit ratio, last batch", f"{last.hit_ratio:.3f}", "")
    table.add_row("  best of any cache", f"{optimum:.3f}", "")
    table.add_row("pages read per batch", f"{joined.pages_read / len(ours.batches):,.0f}", "all rows")
    table.add_row("budget peak of budget", " of ".join(format_bytes(size) for size in peak), "none")
    return table


class _Steps:
    """Numbered lines: what a step does while it runs, what came out and how long it took behind it."""

    def __init__(self, console: Console) -> None:
        self.console, self._number = console, 0

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        found: list[str] = []
        with self._timed(title, found), self.console.status(title):
            yield found.append

    @contextlib.contextmanager
    def bar(self, title: str, *, total: int) -> Iterator[Callable[[Batch], None]]:
        found: list[str] = []
        columns = (
            SpinnerColumn(),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
            TextColumn("{task.description}"),
        )
        with self._timed(title, found), Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("", total=total)

            def show(batch: Batch) -> None:
                text = f"{batch.rows / max(batch.seconds, 1e-3):,.0f} rows/s"
                if batch.join:
                    text += f"  hit ratio {batch.join.hit_ratio:.3f}"
                progress.update(task, advance=batch.rows, description=text)

            yield show

    @contextlib.contextmanager
    def _timed(self, title: str, found: list[str]) -> Iterator[None]:
        self._number += 1
        self.console.print(f"[bold]{self._number}[/] {title}")
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.console.print(f"  [green]{', '.join([*found, f'{seconds:.1f} s'])}[/]")
