"""The access path of HYBRIDJOIN: the key that has waited longest says which page is read, and the page meets all who
wait. Rows that matched leave at once, wherever they stand in the queue.

With a room for a single row this is INLJ: one row at a time through the index.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semistream.access_path.segments import DiskBuffer
from semistream.access_path.whole_keys import last_of, partly, served
from semistream.core.contracts import Matches
from semistream.core.rows import RowLayout


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
        met = 0
        if first < stop:
            # A few neighbours come along if the disk buffer has room for them: the way there is paid already.
            stop = max(stop, min(first + self._pages, shard.info.pages))
            for found, parted in self._buffer.read(shard, first, stop):
                for place in parted:
                    if found.keys[place] == oldest[0]:  # its rows fill more than one window
                        yield partly(room, found, place, before=met)
                        met += int(found.counts[place])
                if found.keys.size > len(parted):
                    yield served(room, found, parted)
        if room.is_waited_for(oldest):
            yield last_of(room, oldest, np.array([met], np.int64))

    def close(self) -> None:
        self._buffer.close()
