"""The waiting room of SSIJ: everyone waits until it is full, and then all leave together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import row_sizes
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, Arrivals, Waiting
from semistream.core.keys import KeyBatch, concat_keys
from semistream.waiting_room.key_order import in_key_order

# What a drain holds per waiting row, beside its own bytes and its key's: order, shard and start of its run
# (20 bytes), the pages and slots of its key (40), counts, hashes and frequencies on the way to the front
# stage (25), and what sorting takes at its peak (16).
BOOKKEEPING_BYTES = 101
COPIES = 2  # a drain puts the pieces together once


def _charge(row_bytes: Any) -> Any:
    """For one size, or an array of them."""
    return COPIES * row_bytes + BOOKKEEPING_BYTES


class BatchRoom:
    """Holds rows up to `capacity()` bytes, bookkeeping for the drain included."""

    def __init__(self, budget: MemoryBudget, capacity: Callable[[], int]) -> None:
        self._reservation = budget.reserve("waiting room", 0)
        self._capacity = capacity
        self._clear()

    @property
    def count(self) -> int:
        return self._count

    def space(self, row_bytes: float) -> int:
        if self._is_full:
            return 0
        left = self._capacity() - self._held_bytes
        return max(int(left / _charge(row_bytes)), 0 if self._count else 1)

    def put(self, arrivals: Arrivals, index: I64) -> int:
        """Takes as many of the first rows as there is room for. A row that would not even fit alone waits alone, in
        the batch that it came with."""
        rows, keys = arrivals.batch.take(pa.array(index)), arrivals.keys.take(index)
        charges = _charge(row_sizes(rows) + keys.sizes)
        fitting = int(np.searchsorted(np.cumsum(charges), self._capacity() - self._held_bytes, side="right"))
        if not fitting and not self._count:
            fitting, charges = 1, np.zeros(1)
            rows = arrivals.batch.slice(int(index[0]), 1)
        if fitting:
            self._held_bytes += float(charges[:fitting].sum())
            self._reservation.resize(int(self._held_bytes))
            self._rows.append(rows.slice(0, fitting))
            self._keys.append(keys.slice(0, fitting))
            self._shards.append(arrivals.shards_of(index[:fitting]))
            self._count += fitting
            self._is_full = not charges[0]
        return fitting

    def take(self) -> Waiting | None:
        if not self._count:
            return None
        rows = self._rows[0] if len(self._rows) == 1 else pa.concat_batches(self._rows)
        keys, shards = concat_keys(self._keys), np.concatenate(self._shards)
        self._clear()
        return in_key_order(rows, keys, shards)

    def settle(self) -> None:
        """Rows are put together when they are taken."""

    def check_invariants(self) -> None:
        assert int(self._held_bytes) <= self._reservation.size_bytes <= max(self._capacity(), 0)
        assert self._count == sum(rows.num_rows for rows in self._rows)

    def _clear(self) -> None:
        self._rows: list[pa.RecordBatch] = []
        self._keys: list[KeyBatch] = []
        self._shards: list[npt.NDArray[np.int32]] = []
        self._held_bytes = 0.0
        self._count = 0
        self._is_full = False
