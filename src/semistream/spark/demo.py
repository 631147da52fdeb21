"""The demo: make the inputs, prepare, join on Spark, verify, and run Spark's own join over the same stream.

Both joins read the same Parquet files with the same settings, one file set a micro-batch, and write to
Spark's noop sink. A count and a checksum of every row are taken as it leaves (`observe`), so all of the
output is verified and no disk is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import semistream as ss
from semistream.core.budget import format_bytes
from semistream.errors import SemistreamError
from semistream.joins import minimum_bytes
from semistream.spark.demo_data import FILES_PER_BATCH, clean_directory, write_customers, write_orders
from semistream.spark.demo_report import OUTPUT, Run, Steps, counted, results
from semistream.spark.follow import follow
from semistream.spark.quiet import available_cores, quiet_session
from semistream.spark.session import COMPARISON_CONF
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

MEMORY_SHARE = 0.05
STREAM_KEY, TABLE_KEY = "custkey", "c_custkey"


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Parameters
    ----------
    scale: TPC-H's scale factor; 1 is 150,000 customers of about 170 bytes.
    batches, batch_rows: micro-batches of the order stream, and orders in each.
    """

    scale: float = 40
    batches: int = 25
    batch_rows: int = 100_000


def run_demo(config: DemoConfig, directory: Path, *, console: Console, debug: bool = False) -> None:
    """Runs all steps, prints what they do and find. SemistreamError if the outputs differ.

    All files are in `directory`, which an earlier demo may have left; about 2 GB.
    """
    steps = Steps(console)
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
        spark = quiet_session("semistream-demo", debug=debug, conf=COMPARISON_CONF)
        done(f"version {spark.version}, {available_cores()} cores")
    try:
        _Joins(spark, directory, config, keys, steps).run()
    finally:
        spark.stop()


class _Joins:
    """The steps that need Spark."""

    def __init__(
        self, spark: SparkSession, directory: Path, config: DemoConfig, keys: ZipfKeys, steps: Steps
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
            expected = counted(
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
            OUTPUT, *_checksums(self.orders, self.customers)
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


def verify_output(run: Run, expected: tuple[int, ...]) -> None:
    if run.output != expected:
        raise SemistreamError(
            f"the output of {run.name} is wrong: (rows, checksums) {run.output} instead of {expected}.",
            hint="please report this with your versions of Spark and semistream.",
        )
