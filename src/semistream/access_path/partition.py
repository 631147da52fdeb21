"""The access path of the partition-based join: the partition that most rows wait for is read, and meets all who wait.

Chakraborty and Singh 2009, as described in 001 section 2, 003 section 2.3 and 000 section 2. Decided here: a partition is
read whole, and to the end of its last key if that goes on in the next one. Not built: the operator that 001 says
switches between INLJ and MESHJOIN by how many rows have come, since the other descriptions do not have it, and none
says what is done with the slots then.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semistream.access_path.segments import Bools, DiskBuffer
from semistream.core.contracts import I64, Matches
from semistream.core.rows import RowLayout
from semistream.master_table.contract import TableShard
from semistream.waiting_room.partitioned_room import PartitionedRoom
from semistream.waiting_room.partitions import Partitions
from semistream.waiting_room.queue_room import Found


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
            for found, whole in self._buffer.read(shard, partition.first, stop):
                yield from self._partly(found, ~whole & np.isin(found.keys, mine), met)
                if whole.any():
                    yield self._matches(found, whole)
        left = room.keys_waiting(slot)
        if left.size:
            yield self._last_of(left, met)

    def close(self) -> None:
        self._buffer.close()

    # -- inside ------------------------------------------------------------------------------------------

    def _end_of(self, shard: TableShard, keys: I64) -> int:
        """Behind the last page of all these keys."""
        batch = self._room.key_batch(keys)
        _, last_page = shard.fences.locate(batch.take(batch.sort_order()))
        return int(last_page.max()) + 1

    def _partly(self, found: Found, parted: Bools, met: dict[int, int]) -> Iterator[Matches]:
        """Keys whose rows lie in more than one window, at most two in each; they stay until the end."""
        for place in np.flatnonzero(parted).tolist():
            key, chosen = int(found.keys[place]), np.arange(parted.size) == place
            before = met.get(key, 0)
            met[key] = before + int(found.counts[place])
            yield self._matches(found, chosen, leave=False, before=before)

    def _matches(self, found: Found, chosen: Bools, *, leave: bool = True, before: int = 0) -> Matches:
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

    def _last_of(self, keys: I64, met: dict[int, int]) -> Matches:
        """Nothing more comes of these keys; R does not have those that met nothing."""
        batch = self._room.key_batch(keys)
        keys = keys[batch.sort_order()]
        before = np.array([met.get(key, 0) for key in keys.tolist()], np.int64)
        nothing = np.zeros(keys.size, np.int64)
        return Matches(
            waiting=self._room.waiting(keys, nothing, leave=True),
            first_key=0,
            counts=nothing,
            row_at=np.zeros(0, np.int64),
            before=before,
            whole=before == 0,
            leaving=np.ones(keys.size, np.bool_),
        )
