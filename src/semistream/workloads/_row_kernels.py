"""Kernels for columns that are functions of the row number, so that any row can be made by itself."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from semistream.workloads.zipf import Int64s

Bytes = NDArray[np.uint8]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True, inline="always")
def _mix(x: np.uint64) -> np.uint64:
    """A bijection on 64 bits after which neighbours have nothing in common (splitmix64's finish)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def fill_characters(rows: Int64s, width: int, seed: int, alphabet: Bytes, out: Bytes) -> None:
    """`width` characters for every row number, one after the other; `alphabet` has 64."""
    start = _mix(np.uint64(seed) + _GOLDEN)
    words = np.uint64((width + 7) // 8)
    at = 0
    for i in range(rows.size):
        counter = np.uint64(rows[i]) * words
        word = np.uint64(0)
        for j in range(width):
            if j % 8 == 0:
                word = _mix(start + (counter + np.uint64(j // 8)) * _GOLDEN)
            out[at] = alphabet[word & np.uint64(63)]
            word >>= np.uint64(8)
            at += 1


@njit(cache=True, nogil=True)
def uniform_below(rows: Int64s, limit: int, seed: int, out: Int64s) -> None:
    """A number in 0 .. limit-1 for every row number, uniform and independent; limit is at most 2^40.

    The upper half of the product of limit and 64 random bits; biased by less than limit / 2^64.
    """
    start = _mix(np.uint64(seed) ^ _GOLDEN)
    wide = np.uint64(limit)
    for i in range(rows.size):
        drawn = _mix(start + np.uint64(rows[i]) * _GOLDEN)
        high, low = drawn >> np.uint64(32), drawn & np.uint64(0xFFFFFFFF)
        # The upper 64 bits of the product drawn * limit, put together from 32-bit halves.
        limit_high, limit_low = wide >> np.uint64(32), wide & np.uint64(0xFFFFFFFF)
        middle = high * limit_low + ((low * limit_low) >> np.uint64(32))
        cross = low * limit_high + (middle & np.uint64(0xFFFFFFFF))
        out[i] = np.int64(high * limit_high + (middle >> np.uint64(32)) + (cross >> np.uint64(32)))
