"""The wait buffer of the partition-based join: a slot for each partition of R, and a threshold for all of them.

    partition -> slot: its keys -> rows of a key        (the two levels of the hash table)

A slot that reaches the threshold, or the whole buffer being full, means that R has to be read: the fullest slot's
partition. Chakraborty and Singh 2009, as described in 001 section 2 and 003 section 2.3. Decided here: slots share the
memory, and hold the rows themselves where the papers' hold join attribute values; the threshold is compared after all
rows that came together are in, so a slot may be above it by then. How long a row of a rare partition waits is not
bounded, which is what the papers criticise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, Arrivals, Waiting
from semistream.waiting_room import _queue_tables as queue_tables
from semistream.waiting_room import _slot_kernels as kernels
from semistream.waiting_room.partitions import Partitions
from semistream.waiting_room.queue_room import QueueRoom

KEY_BYTES = 4 * kernels.PLACES
SLOT_BYTES = 8 * kernels.SLOTS


class PartitionedRoom(QueueRoom):
    """A queue room that knows who waits for which partition.

    `threshold_rows`: what a slot holds before its partition is read. A slot that begins again at none is half full on
    average, so by default it is a row more than twice a slot's share of the room: then all of the room is used, and
    every read serves about as many rows as any other. Until it is divided, it has one slot. Memory: a queue room's,
    KEY_BYTES more per row, SLOT_BYTES per slot.
    """

    def __init__(
        self,
        budget: MemoryBudget,
        capacity: Callable[[], int],
        *,
        fixed: bool,
        threshold_rows: int | None = None,
    ) -> None:
        self._places: npt.NDArray[np.int32]
        super().__init__(budget, capacity, fixed=fixed)
        self._base += KEY_BYTES
        self._threshold_rows = threshold_rows
        self._slot_reservation = budget.reserve("wait buffer slots", SLOT_BYTES)
        self._partitions: Partitions | None = None
        self._set_slots(1)

    def divide(self, partitions: Partitions) -> None:
        """One slot for each partition from now on; nobody waits yet."""
        assert not self.count
        self._partitions = partitions
        self._slot_reservation.resize(SLOT_BYTES * partitions.count)
        self._set_slots(partitions.count)

    @property
    def threshold_rows(self) -> int:
        """Known when the first row has come."""
        return self._threshold_rows or 1 + -(-2 * self._links.shape[0] // self._by_slot.shape[0])

    @property
    def fullest(self) -> int:
        """The partition that most rows wait for."""
        return int(np.argmax(self._by_slot[:, kernels.ROWS]))

    def rows_waiting(self, partition: int) -> int:
        return int(self._by_slot[partition, kernels.ROWS])

    def keys_waiting(self, partition: int) -> I64:
        """The keys of a slot."""
        keys = np.empty(self.rows_waiting(partition), np.int64)
        return keys[: kernels.keys_of(partition, self._places, self._by_slot, keys)]

    def shards_of(self, keys: I64) -> npt.NDArray[np.int32]:
        return self._meta[keys, queue_tables.SHARD]

    # -- what a queue room does, with the slots kept up to date --------------------------------------------

    def space(self, row_bytes: float) -> int:
        space = super().space(row_bytes)
        if self.count and self.rows_waiting(self.fullest) >= self.threshold_rows:
            return 0
        return space

    def put(self, arrivals: Arrivals, index: I64) -> int:
        taken = super().put(arrivals, index)
        keys = np.empty(taken, np.int64)
        keys = keys[: kernels.newcomers(taken, self._links, self._state, self._places, keys)]
        slots = np.zeros(keys.size, np.int64)
        if self._partitions is not None and keys.size:
            slots = self._partitions.of(self.key_batch(keys), self.shards_of(keys))
        kernels.enter(keys, slots, taken, self._links, self._state, self._places, self._by_slot)
        return taken

    def waiting(self, keys: I64, counts: I64, *, leave: bool) -> Waiting:
        if leave:
            kernels.leave(keys, self._meta, self._places, self._by_slot)
        return super().waiting(keys, counts, leave=leave)

    def check_invariants(self) -> None:
        super().check_invariants()
        assert int(self._by_slot[:, kernels.ROWS].sum()) == self.count
        for slot in np.flatnonzero(self._by_slot[:, kernels.ROWS]).tolist():
            keys = self.keys_waiting(slot)
            assert int(self._meta[keys, queue_tables.COUNT].sum()) == self.rows_waiting(slot)
            assert (self._places[keys, kernels.SLOT] == slot).all()

    def _allocate(self, rows: int) -> None:
        super()._allocate(rows)
        self._places = np.full((rows, kernels.PLACES), kernels.END, np.int32)

    def _take_rows(self, rows: I64) -> tuple[Waiting, I64] | None:
        keys = np.unique(self._links[rows, queue_tables.KEY]).astype(np.int64)
        kernels.count_out(rows, self._links, self._places, self._by_slot)
        taken = super()._take_rows(rows)
        gone = keys[self._meta[keys, queue_tables.COUNT] == 0]
        kernels.leave(gone, self._meta, self._places, self._by_slot)
        return taken

    def _set_slots(self, count: int) -> None:
        self._by_slot = np.zeros((count, kernels.SLOTS), np.int64)
        self._by_slot[:, kernels.FIRST] = kernels.END
