"""The access path of HYBRIDJOIN: the key that has waited longest says which page is read, and the page meets all who
wait. Rows that matched leave at once, wherever they stand in the queue.

With a room for a single row this is INLJ: one row at a time through the index.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from semistream.access_path.segments import Bools, DiskBuffer
from semistream.core.contracts import I64, Matches
from semistream.core.rows import RowLayout
from semistream.waiting_room.queue_room import Found


class OldestKey:
    """`pages` is the size of the disk buffer, `position` the place in the queue of the key that is looked up, counted
    from where rows come in: 1 is the queue's end, where the oldest is; 0.15 is best while the end is being shed, since
    pages that many wait for are found near the start (000 sect. 5.3.1).

    Guarantee: a page that was read is not read again for any row that waited then (001, Theorem 1); at most one
    read per stream row (Theorem 2). Cost per step: one page or few, all their rows looked up.

    001 Fig. 5 and 000 Algorithm 1.
    """

    def __init__(self, buffer: DiskBuffer, *, layout: RowLayout, pages: int, position: float = 1.0) -> None:
        self.layout, self.cycles = layout, 0
        self._buffer, self._room = buffer, buffer.room
        self._pages, self._position = pages, position

    def step(self) -> Iterator[Matches]:
        room = self._room
        if not room.count:
            return
        oldest = room.key_at(1.0 - self._position)
        shard = self._buffer.shard(room.shard_of(oldest))
        first_page, last_page = shard.fences.locate(room.key_batch(oldest))
        first, stop = int(first_page[0]), int(last_page[0]) + 1
        met, served = 0, False
        if first < stop:
            # A few neighbours come along if the disk buffer has room for them: the way there is paid already.
            stop = max(stop, min(first + self._pages, shard.info.pages))
            for found, whole in self._buffer.read(shard, first, stop):
                mine = found.keys == oldest[0]
                served = served or bool((mine & whole).any())
                if (mine & ~whole).any():  # its rows fill more than one window
                    met += yield from self._partly(found, mine, met)
                if whole.any():
                    yield self._matches(found, whole, leave=True)
        if not served:
            yield self._last_of(oldest, met)

    def close(self) -> None:
        self._buffer.close()

    # -- inside ------------------------------------------------------------------------------------------

    def _partly(self, found: Found, mine: Bools, met: int) -> Generator[Matches, None, int]:
        """Some of the oldest key's rows, after `met` others; the key stays. Returns how many."""
        yield self._matches(found, mine, leave=False, before=met)
        return int(found.counts[mine][0])

    def _matches(self, found: Found, chosen: Bools, *, leave: bool, before: int = 0) -> Matches:
        keys, counts, row_at = found.keys, found.counts, found.row_at
        if not chosen.all():
            keys, counts, row_at = keys[chosen], counts[chosen], row_at[np.repeat(chosen, counts)]
        return Matches(
            waiting=self._room.waiting(keys, counts, leave=leave),
            first_key=0,
            counts=counts,
            row_at=row_at,
            before=np.full(keys.size, before, np.int64),
            whole=np.full(keys.size, leave),
            leaving=np.full(keys.size, leave),
        )

    def _last_of(self, oldest: I64, met: int) -> Matches:
        """There is nothing more of this key; if it met nothing, R does not have it."""
        nothing = np.zeros(1, np.int64)
        return Matches(
            waiting=self._room.waiting(oldest, nothing, leave=True),
            first_key=0,
            counts=nothing,
            row_at=np.zeros(0, np.int64),
            before=np.array([met], np.int64),
            whole=np.array([met == 0]),
            leaving=np.ones(1, np.bool_),
        )
