"""The access path of the partition-based join: the partition that most rows wait for is read, and meets all who wait.

Chakraborty and Singh 2009, as described in 001 section 2, 003 section 2.3 and 000 section 2. Decided here: a partition is
read whole, and to the end of its last key if that goes on in the next one. Not built: the operator that 001 says
switches between INLJ and MESHJOIN by how many rows have come, since the other descriptions do not have it, and none
says what is done with the slots then.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semistream.access_path.segments import DiskBuffer
from semistream.access_path.whole_keys import last_of, partly, served
from semistream.core.contracts import I64, Matches
from semistream.core.rows import RowLayout
from semistream.master_table.contract import TableShard
from semistream.waiting_room.partitioned_room import PartitionedRoom
from semistream.waiting_room.partitions import Partitions


class PartitionAccess:
    """`pages` is the size of a partition. A step reads the fullest slot's, as the room decides when: a slot has reached
    the threshold, the room is full, or the stream has ended.

    Guarantee: the slot is empty afterwards. Cost per step: one request for a partition, all its rows looked up.
    """

    def __init__(self, buffer: DiskBuffer, room: PartitionedRoom, *, layout: RowLayout, pages: int) -> None:
        assert buffer.room is room
        self.layout, self.cycles = layout, 0
        self._buffer, self._room = buffer, room
        self._partitions = Partitions(buffer.shards, pages)
        room.divide(self._partitions)

    def step(self) -> Iterator[Matches]:
        room, slot = self._room, self._room.fullest
        mine = room.keys_waiting(slot)
        if not mine.size:
            return
        self._buffer.check_shards(room.shards_of(mine))
        partition = self._partitions[slot]
        shard = self._buffer.shard(partition.shard)
        stop = max(partition.stop, self._end_of(shard, mine))
        met: dict[int, int] = {}
        if partition.first < stop:
            for found, parted in self._buffer.read(shard, partition.first, stop):
                for place in parted:
                    if (key := int(found.keys[place])) in mine:
                        yield partly(room, found, place, before=met.get(key, 0))
                        met[key] = met.get(key, 0) + int(found.counts[place])
                if found.keys.size > len(parted):
                    yield served(room, found, parted)
        left = room.keys_waiting(slot)
        if left.size:
            left = left[room.key_batch(left).sort_order()]
            before = [met.get(key, 0) for key in left.tolist()]
            yield last_of(room, left, np.array(before, np.int64))

    def close(self) -> None:
        self._buffer.close()

    # -- inside ------------------------------------------------------------------------------------------

    def _end_of(self, shard: TableShard, keys: I64) -> int:
        """Behind the last page of all these keys."""
        batch = self._room.key_batch(keys)
        _, last_page = shard.fences.locate(batch.take(batch.sort_order()))
        return int(last_page.max()) + 1
