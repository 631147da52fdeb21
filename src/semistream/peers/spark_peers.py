"""Spark's stream-static join in three ways, and ours on Spark, each in a session of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from semistream.peers.contract import OUTPUT_SCHEMA, Peer, Setting
from semistream.peers.ours import build_core_store
from semistream.peers.page_cache import files_in, release_mappings
from semistream.spark.peer import JOINS, SparkQuery


class _SparkPeer(Peer):
    """A streaming query (file source, noop sink). A batch's time is what the query reports of it; reading its files is
    part of that, for every side on Spark alike."""

    learns = False
    how: str
    heap = "2g"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.notes = [f"Spark has no limit of memory below its heap, which is {self.heap}"]

    def build(self) -> None:
        """The table's own files are all it needs."""

    @property
    def _table(self) -> list[Path]:
        return list(self.setting.table_files)

    def open(self) -> None:
        self._query = SparkQuery(
            JOINS[self.how],
            table_files=self._table,
            store=self.setting.home / "store",
            memory_bytes=self.setting.memory_bytes,
            work=self.setting.home.parent / f"{self.setting.home.name}-work",
            cores=self.setting.threads,
            heap=self.heap,
        )

    def join(self, batch: pa.RecordBatch) -> pa.Table:
        found: Any = self._query.batch_join(batch)
        return found.select(OUTPUT_SCHEMA.names).cast(OUTPUT_SCHEMA)

    def seconds(self, batch: pa.RecordBatch) -> float:
        return self._query.seconds(batch)

    def files(self) -> list[Path]:
        return self._table

    def close(self) -> None:
        self._query.close()


class Plain(_SparkPeer):
    how = "plain"


class Cached(_SparkPeer):
    """`cache()`: the table in Spark's own columns in the heap; what does not fit goes to its disk."""

    how = "cached"
    heap = "4g"

    def files(self) -> list[Path]:
        return files_in(self._query.spill)


class Broadcast(_SparkPeer):
    """`broadcast()` of the table, which Spark makes anew for every batch."""

    how = "broadcast"
    heap = "4g"


class Ours(_SparkPeer):
    """`ss.join`: Python workers of the two tasks, beside Spark's heap."""

    how = "ours"
    learns = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.given_bytes = setting.memory_bytes
        self.notes = [f"the join's memory; Spark's own heap is {self.heap}"]

    def build(self) -> None:
        build_core_store(self, self.setting.home / "store")

    def files(self) -> list[Path]:
        return [path for path in files_in(self.setting.home / "store") if path.suffix == ".pages"]

    def let_go(self) -> None:
        self._query.in_workers(partial(release_mappings, self.files()))
