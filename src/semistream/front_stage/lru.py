"""Least recently used: the cache that most systems have, for comparison.

Every whole key comes in; the one asked for longest ago leaves. Algorithm: P. Denning, "The Working Set Model for
Program Behavior", CACM 11(5), 1968, and folklore; bytes are counted instead of entries.
"""

from __future__ import annotations

from semistream.core.contracts import I64, Answers
from semistream.core.keys import KeyBatch
from semistream.core.rows import RowLayout
from semistream.front_stage import _lru_kernels as kernels
from semistream.front_stage.entry_table import ENTRY_SHARE_MAX, EntryTable
from semistream.front_stage.table_stage import TableFrontStage


class LruFrontStage(TableFrontStage):
    """Guarantee: holds at most `size_bytes`. Cost: O(1) per hit and per eviction."""

    def __init__(
        self, size_bytes: int, *, layout: RowLayout, fixed: bool, row_bytes: float, decode_bytes: int
    ) -> None:
        table = EntryTable(size_bytes, layout=layout, fixed=fixed, row_bytes=row_bytes)
        super().__init__(table, decode_bytes=decode_bytes)

    def adapt(self, cycles: int) -> None:
        """Recency needs no ageing."""

    def _touch(self, answers: Answers, keys: KeyBatch, start: int) -> None:
        kernels.touch(self._table.place, answers.entries)

    def _take(self, keys: KeyBatch, sightings: I64, sizes: I64, newcomers: I64) -> None:
        size_max = int(self._table.capacity_bytes * ENTRY_SHARE_MAX)
        kernels.take(self._table.place, newcomers, keys.hashes, sizes, size_max)
