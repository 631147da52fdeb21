"""Small stand-ins for what joins do to each row, for `calibration` to time. Nothing is joined with them."""

from __future__ import annotations

import numpy as np
from numba import njit

# Odd, with bits all over: multiplying by it spreads consecutive keys over the table.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def place(key, shift):  # type: ignore[no-untyped-def]
    return np.int64((np.uint64(key) * _SPREAD) >> np.uint64(shift))


@njit(cache=True)
def insert(slots, links, keys, shift):  # type: ignore[no-untyped-def]
    """Linear probing; each key also becomes a node of a queue with links both ways. 0 is an empty slot."""
    mask = slots.size - 1
    last = 0
    for key in keys:
        at = place(key, shift)
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = key
        links[at, 0] = last
        links[last, 1] = at
        last = at


@njit(cache=True)
def probe(slots, keys, shift):  # type: ignore[no-untyped-def]
    mask = slots.size - 1
    found = 0
    for key in keys:
        at = place(key, shift)
        while slots[at] != 0 and slots[at] != key:
            at = (at + 1) & mask
        found += slots[at] == key
    return found


@njit(cache=True)
def remove(slots, links, keys, shift):  # type: ignore[no-untyped-def]
    """Backward shift: no tombstones. Links of moved nodes are left alone, as nothing here follows them."""
    mask = slots.size - 1
    for key in keys:
        at = place(key, shift)
        while slots[at] != 0 and slots[at] != key:
            at = (at + 1) & mask
        before, behind = links[at, 0], links[at, 1]
        links[before, 1] = behind
        links[behind, 0] = before
        hole = at
        while True:
            at = (at + 1) & mask
            if slots[at] == 0:
                break
            if ((at - place(slots[at], shift)) & mask) >= ((at - hole) & mask):
                slots[hole] = slots[at]
                hole = at
        slots[hole] = 0


@njit(cache=True)
def copy_rows(source, order, target):  # type: ignore[no-untyped-def]
    """Row order[i] of `source` behind the others in `target`: what an output or an admission does."""
    for i in range(order.size):
        row = order[i]
        for byte in range(source.shape[1]):
            target[i, byte] = source[row, byte]


@njit(cache=True)
def nothing(values):  # type: ignore[no-untyped-def]
    return values.size
