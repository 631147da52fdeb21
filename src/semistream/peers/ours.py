"""Ours without Spark: `start_join`, one shard and one thread each, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from semistream.core.keys import KeyEncoder
from semistream.joins import RunningJoin, resolve_shape, start_join
from semistream.master_table.builder import draft_store, write_shard
from semistream.master_table.page_store import MasterTable
from semistream.peers.contract import OUTPUT_SCHEMA, Peer, Setting
from semistream.peers.page_cache import files_in
from semistream.workloads.tables import KEY, STREAM_SCHEMA, TABLE_SCHEMA


def build_core_store(peer: Peer, store: Path) -> None:
    """A page store of one shard a thread; memory for a batch of rows. The table's files are in the order of the key."""
    shards, encoder = peer.setting.threads, KeyEncoder([TABLE_SCHEMA.field(KEY).type])

    def rows_of(shard: int) -> Iterator[pa.RecordBatch]:
        for batch in peer.rows():
            mine = encoder.shards([batch.column(KEY)], shards) == shard
            yield batch.take(pa.array(np.flatnonzero(mine)))

    with draft_store(
        store, schema=TABLE_SCHEMA, key=[KEY], shards=shards, page_size="8 KiB", overwrite=False
    ) as draft:
        draft.commit([write_shard(draft.spec, shard, rows_of(shard)) for shard in range(shards)])


class Core(Peer):
    """`adaptive` with the memory divided equally; every batch is flushed, so that all of its rows leave with it."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.given_bytes = setting.memory_bytes
        self._store = setting.home / "store"
        self._joins: list[RunningJoin] = []

    def build(self) -> None:
        build_core_store(self, self._store)

    def open(self) -> None:
        table, shards = MasterTable.open(self._store), self.setting.threads
        shape = resolve_shape(STREAM_SCHEMA, table, on=KEY, how="inner", columns=None, suffix=None)
        self._encoder = KeyEncoder([STREAM_SCHEMA.field(KEY).type])
        self._pool = ThreadPoolExecutor(shards)
        self._joins = [
            start_join(table, shape, memory_bytes=self.setting.memory_bytes // shards, shards=[shard])
            for shard in range(shards)
        ]

    def join(self, batch: pa.RecordBatch) -> pa.Table:
        shards = self._encoder.shards([batch.column(KEY)], len(self._joins))

        def run(shard: int) -> list[pa.RecordBatch]:
            join, mine = self._joins[shard], np.flatnonzero(shards == shard)
            return [*join.push(batch.take(pa.array(mine))), *join.flush()]

        pieces = [piece for found in self._pool.map(run, range(len(self._joins))) for piece in found]
        return pa.Table.from_batches(pieces, schema=None if pieces else OUTPUT_SCHEMA)

    def files(self) -> list[Path]:
        return [path for path in files_in(self._store) if path.suffix == ".pages"]

    def close(self) -> None:
        for join in self._joins:
            join.finish()
            join.close()
        self._pool.shutdown()
