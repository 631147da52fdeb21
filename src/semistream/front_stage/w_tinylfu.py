"""W-TinyLFU, for comparison: recency in a small window, frequency at the door of the main cache.

A new key enters the window, 1 % of the bytes, in order of use. Who leaves the window stays only if a sketch of 4-bit
counters has seen its key more often than the key that would have to leave the main cache, which is a segmented LRU:
a fifth on probation, four fifths protected. Every look-up counts; after ten per cached entry all counts are
halved.

G. Einziger, R. Friedman, B. Manes: "TinyLFU: A Highly Efficient Cache Admission Policy", ACM TOS 13(4), 2017. Bytes are
counted instead of entries; who is too large for one victim's place must be more frequent than each.
"""

from __future__ import annotations

import numpy as np

from semistream.core.arrow import address_of
from semistream.core.contracts import I64, Answers
from semistream.core.keys import KeyBatch
from semistream.core.rows import RowLayout
from semistream.front_stage import _w_tinylfu_kernels as kernels
from semistream.front_stage._sketch_kernels import halve_sketch
from semistream.front_stage.entry_table import ENTRY_SHARE_MAX, EntryTable, entry_bytes_of
from semistream.front_stage.table_stage import TableFrontStage

WINDOW_SHARE = 1 / 100
PROTECTED_SHARE = 4 / 5  # of the main cache
LINE_BYTES, LINE_ENTRIES = 64, 8  # 16 counters per entry
SAMPLE_PER_ENTRY = 10


class WTinyLfuFrontStage(TableFrontStage):
    """Guarantee: holds at most `size_bytes`, the sketch included. Cost: a cache miss more per look-up, for the sketch."""

    def __init__(
        self, size_bytes: int, *, layout: RowLayout, fixed: bool, row_bytes: float, decode_bytes: int
    ) -> None:
        expected = size_bytes / (entry_bytes_of(row_bytes) + LINE_BYTES / LINE_ENTRIES)
        self._lines = max(1, int(expected / LINE_ENTRIES))
        self._sketch = np.zeros(LINE_BYTES * self._lines, np.uint8)
        self._counted, self._expected = 0, expected
        table = EntryTable(
            size_bytes - self._sketch.nbytes,
            layout=layout, fixed=fixed, row_bytes=row_bytes, lists=kernels.LISTS,
        )  # fmt: skip
        super().__init__(table, decode_bytes=decode_bytes)

    def adapt(self, cycles: int) -> None:
        if self._counted >= SAMPLE_PER_ENTRY * max(self._expected, self._table.entries):
            halve_sketch(address_of(self._sketch), self._lines)
            self._counted //= 2

    @property
    def _window_bytes(self) -> int:
        return int(self._table.capacity_bytes * WINDOW_SHARE)

    @property
    def _main_bytes(self) -> int:
        return self._table.capacity_bytes - self._window_bytes

    def _touch(self, answers: Answers, keys: KeyBatch, start: int) -> None:
        self._counted += kernels.touch(
            self._table.place, answers.entries, keys.hashes, start, address_of(self._sketch), self._lines,
            int(self._main_bytes * PROTECTED_SHARE),
        )  # fmt: skip

    def _take(self, keys: KeyBatch, sightings: I64, sizes: I64, newcomers: I64) -> None:
        kernels.take(
            self._table.place, newcomers, keys.hashes, sizes, int(self._table.capacity_bytes * ENTRY_SHARE_MAX),
            self._window_bytes, self._main_bytes, address_of(self._sketch), self._lines,
        )  # fmt: skip
