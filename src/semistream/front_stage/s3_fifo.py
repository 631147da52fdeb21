"""S3-FIFO, for comparison: three first-in first-out queues, and a key must be asked for again to stay.

A new key enters the small queue, a tenth of the bytes. From its front, keys hit more than once go on to the main queue,
the others leave, and are remembered as ghosts without rows; one that comes back while it is a ghost enters the
main queue at once. From the front of the main queue, keys with hits left go round again with one hit less.

J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi: "FIFO Queues are All You Need for Cache Eviction", SOSP 2023. Bytes are
counted instead of objects; ghosts are as many as entries are expected in the main queue, in lines of four.
"""

from __future__ import annotations

import numpy as np

from semistream.core.contracts import I64, Answers
from semistream.core.keys import KeyBatch
from semistream.core.rows import RowLayout
from semistream.front_stage import _s3_fifo_kernels as kernels
from semistream.front_stage.entry_table import ENTRY_SHARE_MAX, EntryTable, entry_bytes_of
from semistream.front_stage.table_stage import TableFrontStage

SMALL_SHARE = 1 / 10
GHOST_BYTES = 16


class S3FifoFrontStage(TableFrontStage):
    """Guarantee: holds at most `size_bytes`, ghosts included. Cost: one write per hit; amortised O(1) per eviction."""

    def __init__(
        self, size_bytes: int, *, layout: RowLayout, fixed: bool, row_bytes: float, decode_bytes: int
    ) -> None:
        expected = int((1 - SMALL_SHARE) * size_bytes / (entry_bytes_of(row_bytes) + GHOST_BYTES))
        self._ghosts = np.zeros((max(1, expected // kernels.WAYS) * kernels.WAYS, 2), np.int64)
        self._clock = np.zeros(1, np.int64)
        table = EntryTable(
            size_bytes - self._ghosts.nbytes - self._clock.nbytes,
            layout=layout, fixed=fixed, row_bytes=row_bytes, lists=kernels.LISTS,
        )  # fmt: skip
        super().__init__(table, decode_bytes=decode_bytes)

    def adapt(self, cycles: int) -> None:
        """Queues need no ageing."""

    def _touch(self, answers: Answers, keys: KeyBatch, start: int) -> None:
        kernels.touch(self._table.place, answers.entries)

    def _take(self, keys: KeyBatch, sightings: I64, sizes: I64, newcomers: I64) -> None:
        capacity = self._table.capacity_bytes
        kernels.take(
            self._table.place, newcomers, keys.hashes, sizes, int(capacity * ENTRY_SHARE_MAX),
            int(capacity * SMALL_SHARE), self._ghosts, self._clock,
        )  # fmt: skip
