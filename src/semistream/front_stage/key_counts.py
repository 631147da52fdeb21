"""Counts per key for a span of time, in a fixed number of bytes.

Keys are known by their 64-bit hash alone: two keys in one count are a wrong estimate, never a wrong answer.
"""

from __future__ import annotations

import numpy as np

from semistream.core.contracts import I64
from semistream.core.keys import KeyBatch
from semistream.front_stage import _key_counts_kernels as kernels

SLOT_BYTES = 16
FILLED_SHARE_MAX = 3 / 4
SIZE_MIN_BYTES = 8 * SLOT_BYTES


class KeyCounts:
    """Counts at most FILLED_SHARE_MAX of its slots' keys; with `renew` it forgets all when a key more comes,
    without it that key is not counted. Memory: `size_bytes`."""

    def __init__(self, size_bytes: int, *, renew: bool) -> None:
        slots = max(size_bytes, SIZE_MIN_BYTES) // SLOT_BYTES
        self._names, self._counts = np.zeros(slots, np.uint64), np.zeros(slots, np.int64)
        self.size_bytes = slots * SLOT_BYTES
        self.keys_max = int(slots * FILLED_SHARE_MAX)
        self._renew, self.keys = renew, 0

    def add(self, keys: KeyBatch, increments: I64) -> I64:
        """The counts of these keys after it."""
        totals = np.empty(len(keys), np.int64)
        self.keys = int(
            kernels.add(
                self._names,
                self._counts,
                self.keys,
                self.keys_max,
                self._renew,
                keys.hashes,
                increments,
                totals,
            )
        )
        return totals

    def look_up(self, keys: KeyBatch) -> I64:
        """The counts of these keys; -1 for those that were not counted."""
        totals = np.empty(len(keys), np.int64)
        kernels.look_up(self._names, self._counts, keys.hashes, totals)
        return totals

    def clear(self) -> None:
        if self.keys:
            self._names[:], self._counts[:], self.keys = 0, 0, 0
