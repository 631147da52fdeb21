"""Lance: rows taken by their place in the dataset.

https://lancedb.github.io/lance/guide/performance
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

from semistream.peers.contract import CannotRunError, Setting
from semistream.peers.lookup import I64, LookupPeer
from semistream.peers.page_cache import files_in
from semistream.workloads.tables import KEY, TABLE_SCHEMA


class Take(LookupPeer):
    """`take` by row number. The benchmark's keys are the row numbers, so Lance needs no index here, which other keys
    would make it ask first. Its caches, of metadata, get the allowed memory."""

    learns = False

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, lanes=1)
        self.given_bytes = setting.memory_bytes
        self.notes = ["the keys are row numbers: taken without an index"]

    @property
    def _path(self) -> Path:
        return self.setting.home / "table.lance"

    def build(self) -> None:
        first = 0
        for batch in self.rows():
            keys = batch.column(KEY)
            if pc.min_max(keys).as_py() != {"min": first, "max": first + len(keys) - 1}:
                raise CannotRunError(
                    "Lance takes rows by number, and the keys of this table are no row numbers.",
                    hint="use a table with the keys 0, 1, 2, ...",
                )
            first += len(keys)
        lance.write_dataset(pa.RecordBatchReader.from_batches(TABLE_SCHEMA, self.rows()), str(self._path))

    def open(self) -> None:
        half = self.setting.memory_bytes // 2
        self._table: Any = lance.dataset(
            str(self._path), index_cache_size_bytes=half, metadata_cache_size_bytes=half
        )

    def look_up(self, keys: I64, lane: int) -> pa.Table:
        there = keys[(keys >= 0) & (keys < self.setting.rows)]
        return self._table.take(there).select(TABLE_SCHEMA.names)

    def files(self) -> list[Path]:
        return files_in(self._path)
