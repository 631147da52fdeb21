"""The access path of MESHJOIN: R is read through again and again, a segment at a time. Who waits meets every
segment once, wherever the reading stood when it came, and leaves after a full cycle.

Needs no order of R and no index. R may grow meanwhile: a cycle that has begun ends as long as it was.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semistream.access_path.segments import DiskBuffer, all_but
from semistream.core.contracts import Matches
from semistream.core.rows import RowLayout
from semistream.master_table.contract import TableShard

EXPIRING_AT_ONCE = 1024  # rows; what is told of them takes memory for a moment

Segment = tuple[TableShard, int, int]


class CyclicScan:
    """`segment_pages` is b of the papers; k segments make a cycle. With `by_chunk`, one k-th of the room comes in
    for every segment (MESHJOIN); without it, whatever has room (R-MESHJOIN).

    Guarantee: each row leaves after exactly k steps. Cost per step: one segment read, all its rows looked up.

    Polyzotis et al. 2008, as recalled in 001 sect. 3 and 003 sect. 2.2.
    """

    def __init__(self, buffer: DiskBuffer, *, layout: RowLayout, segment_pages: int, by_chunk: bool) -> None:
        self.layout, self.cycles = layout, 0
        self._buffer, self._room = buffer, buffer.room
        self._segment_pages, self._by_chunk = segment_pages, by_chunk
        self._steps = 0
        self._begin_cycle()

    @property
    def segments(self) -> int:
        """k of the papers."""
        return len(self._cycle)

    def step(self) -> Iterator[Matches]:
        self._steps += 1
        if self._cycle:
            yield from self._show(*self._cycle[self._at])
            self._at += 1
            if self._at == len(self._cycle):
                self.cycles += 1
                self._begin_cycle()
        yield from self._expire()
        self._room.stamp = self._steps + max(1, len(self._cycle))
        self._room.split_into(max(1, len(self._cycle)) if self._by_chunk else None)

    def close(self) -> None:
        self._buffer.close()

    # -- inside ------------------------------------------------------------------------------------------

    def _begin_cycle(self) -> None:
        """R is as large as it is now, for one cycle."""
        size, self._at = self._segment_pages, 0
        self._cycle: list[Segment] = []
        for shard in self._buffer.shards.values():
            pages = shard.info.pages
            self._cycle += [(shard, first, min(first + size, pages)) for first in range(0, pages, size)]
        if self._steps == 0:
            self._room.stamp = max(1, len(self._cycle))
            self._room.split_into(max(1, len(self._cycle)) if self._by_chunk else None)

    def _show(self, shard: TableShard, first: int, stop: int) -> Iterator[Matches]:
        ahead, begin, end = self._cycle[(self._at + 1) % len(self._cycle)]
        ahead.prefetch(np.arange(begin, end, dtype=np.int64))
        for found, parted in self._buffer.read(shard, first, stop):
            if found.keys.size:
                yield Matches(
                    waiting=self._room.waiting(found.keys, found.counts, leave=False),
                    first_key=0,
                    counts=found.counts,
                    row_at=found.row_at,
                    before=np.zeros(found.keys.size, np.int64),
                    whole=all_but(found.keys.size, parted),
                    leaving=np.zeros(found.keys.size, np.bool_),
                )

    def _expire(self) -> Iterator[Matches]:
        """Those who came k steps ago have met all of R. Who met nothing has a key that R does not have."""
        while taken := self._room.take_oldest(EXPIRING_AT_ONCE, stamp_max=self._steps):
            waiting, before = taken
            self._buffer.check_shards(waiting.shards[before == 0])
            yield Matches(
                waiting=waiting,
                first_key=0,
                counts=np.zeros(before.size, np.int64),
                row_at=np.zeros(0, np.int64),
                before=before,
                whole=before == 0,
                leaving=np.ones(before.size, np.bool_),
            )
