"""A streaming query that is fed one batch at a time: what the peers' benchmark measures of Spark."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import semistream as ss
from semistream.spark.session import COMPARISON_CONF, local_session
from semistream.workloads.tables import KEY, STREAM_SCHEMA, TABLE_SCHEMA

_IN_WORKERS_S = 0.2  # long enough that no worker gets two of the tasks


@dataclass(frozen=True, kw_only=True)
class Master:
    """The table as Spark reads it, and as ours does."""

    static: DataFrame
    store: Path
    memory_bytes: int


Join = Callable[[DataFrame, Master], DataFrame]


def _ours(stream: DataFrame, master: Master) -> DataFrame:
    return ss.join(stream, ss.open(master.store), on=KEY, memory=master.memory_bytes)


JOINS: Mapping[str, Join] = {
    "plain": lambda stream, master: stream.join(master.static, KEY),
    "cached": lambda stream, master: stream.join(master.static.cache(), KEY),
    "broadcast": lambda stream, master: stream.join(F.broadcast(master.static), KEY),
    "ours": _ours,
}


class SparkQuery:
    """One query in one session. A batch is a directory with one Parquet file a core, which appears in the query's
    inbox at once, so that it is one micro-batch."""

    def __init__(
        self,
        join: Join,
        *,
        table_files: Sequence[Path],
        store: Path,
        memory_bytes: int,
        work: Path,
        cores: int,
        heap: str,
    ) -> None:
        shutil.rmtree(work, ignore_errors=True)
        self._staging, self._inbox, self.spill = (work / name for name in ("staging", "inbox", "local"))
        for directory in (self._staging, self._inbox, self.spill):
            directory.mkdir(parents=True)
        self._work, self._cores, self._join = work, cores, join
        conf = COMPARISON_CONF | {
            "spark.local.dir": str(self.spill),
            "spark.sql.streaming.numRecentProgressUpdates": "10",
        }
        self._spark = local_session("semistream-peers", cores=cores, driver_memory=heap, conf=conf)
        static = self._spark.read.schema(self._schema(TABLE_SCHEMA)).parquet(*map(str, table_files))
        self._master = Master(static=static, store=store, memory_bytes=memory_bytes)
        self._query: StreamingQuery | None = None
        self._batches = 0

    def _schema(self, schema: pa.Schema) -> Any:
        return self._spark.createDataFrame(schema.empty_table()).schema

    def batch_join(self, batch: pa.RecordBatch) -> pa.Table:
        """The rows, by the same join of a frame that is no stream."""
        directory = self._staged(batch)
        frame = self._spark.read.schema(self._schema(STREAM_SCHEMA)).parquet(str(directory))
        return self._join(frame, self._master).toArrow()

    def seconds(self, batch: pa.RecordBatch) -> float:
        """Feeds the batch to the streaming query, and waits until it says that it is done."""
        query = self._query = self._query or self._started()
        directory = self._staged(batch)
        arrived = directory.rename(self._inbox / directory.name)
        query.processAllAvailable()
        done = [progress for progress in query.recentProgress if progress["numInputRows"] > 0]
        shutil.rmtree(arrived)
        found = [(progress["batchId"], progress["numInputRows"]) for progress in done[-1:]]
        if found != [(self._batches, batch.num_rows)]:
            raise RuntimeError(f"batch {self._batches} of {batch.num_rows} rows was sent, {found} reported")
        self._batches += 1
        return float(done[-1]["durationMs"]["triggerExecution"]) / 1000

    def _started(self) -> StreamingQuery:
        stream = self._spark.readStream.schema(self._schema(STREAM_SCHEMA)).parquet(f"{self._inbox}/*/")
        return (
            self._join(stream, self._master)
            .writeStream.format("noop")
            .option("checkpointLocation", str(self._work / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _staged(self, batch: pa.RecordBatch) -> Path:
        directory = self._staging / f"{time.monotonic_ns()}"
        directory.mkdir()
        cuts = [batch.num_rows * i // self._cores for i in range(self._cores + 1)]
        for i in range(self._cores):
            piece = pa.Table.from_batches([batch.slice(cuts[i], cuts[i + 1] - cuts[i])])
            pq.write_table(piece, directory / f"{i}.parquet", use_dictionary=False)
        return directory

    def in_workers(self, work: Callable[[], object]) -> None:
        """Runs this in each of Spark's Python workers of this machine, which idle between batches."""

        def run(_: Any) -> None:
            work()
            time.sleep(_IN_WORKERS_S)

        self._spark.sparkContext.parallelize(range(self._cores), self._cores).foreach(run)

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()
        self._spark.stop()
        shutil.rmtree(self._work, ignore_errors=True)
