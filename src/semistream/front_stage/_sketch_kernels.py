"""Kernels of how frequent keys are, and what that is worth: a sketch of all keys, and the value density of an entry.

The sketch has 4-bit counters, four per key, all four in one cache line.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from semistream.core._hash_kernels import mix64
from semistream.core._memory import load_u8, load_u64, multiply_high, store_u8, store_u64

BINS = 4096  # of density, for choosing what stays without sorting: 16 per power of two


@njit(cache=True, inline="always")
def _counter(hashed, j):  # type: ignore[no-untyped-def]
    return np.int64((hashed >> np.uint64(7 * j)) & np.uint64(127))


@njit(cache=True)
def _estimate(line, hashed):  # type: ignore[no-untyped-def]
    least = np.int64(15)
    for j in range(4):
        c = _counter(hashed, j)
        least = min(least, np.int64(load_u8(line + (c >> 1)) >> np.uint8(4 * (c & 1))) & 15)
    return least


@njit(cache=True)
def sketch_raise(sketch, lines, key_hash, increment, floor):  # type: ignore[no-untyped-def]
    """Counts `increment` more sightings, at least `floor` in all; returns the new estimate (at most 15).

    Conservative: only counters below the new estimate move, which keeps strangers' counts low.
    """
    hashed = mix64(key_hash + np.uint64(0x9E3779B97F4A7C15))
    line = sketch + 64 * np.int64(multiply_high(hashed, np.uint64(lines)))
    estimate = min(max(_estimate(line, hashed) + increment, floor), 15)
    for j in range(4):
        c = _counter(hashed, j)
        at = line + (c >> 1)
        shift = np.uint8(4 * (c & 1))
        byte = load_u8(at)
        if np.int64((byte >> shift) & 15) < estimate:
            kept = byte & np.uint8(0xF0 if shift == 0 else 0x0F)
            store_u8(at, np.uint8(kept | (np.uint8(estimate) << shift)))
    return estimate


@njit(cache=True, nogil=True)
def halve_sketch(sketch, lines):  # type: ignore[no-untyped-def]
    for i in range(8 * lines):
        word = load_u64(sketch + 8 * i)
        store_u64(sketch + 8 * i, (word >> np.uint64(1)) & np.uint64(0x7777777777777777))


# Value density: expected reads of R saved per drain and byte.


@njit(cache=True)
def density(frequency, size, rows_per_drain, window_rows):  # type: ignore[no-untyped-def]
    """(1 - (1 - p)^B) / bytes, with p = frequency / window and B rows between two drains."""
    p = frequency / window_rows
    return -math.expm1(-rows_per_drain * p) / size


@njit(cache=True)
def bin_of(value):  # type: ignore[no-untyped-def]
    """A rising function of the density, 16 bins per power of two, over 2**-200 .. 1."""
    if value <= 0.0:
        return 0
    mantissa, exponent = math.frexp(value)
    return min(max(1, (exponent + 220) * 16 + int((mantissa - 0.5) * 32)), BINS - 1)


@njit(cache=True)
def value_of(place):  # type: ignore[no-untyped-def]
    """The least density in a bin; 0 for the first one."""
    if place <= 0:
        return 0.0
    return math.ldexp(0.5 + (place % 16) / 32, place // 16 - 220)


@njit(cache=True, nogil=True)
def sketch_and_filter(  # type: ignore[no-untyped-def]
    sketch, lines, hashes, sightings, sizes_min, rows_per_drain, window_rows, bar, estimates, chosen
):
    """Counts the sightings; chosen[j] = could this key's density be above the bar? Returns the sightings."""
    total = np.int64(0)
    for j in range(hashes.size):
        estimates[j] = sketch_raise(sketch, lines, hashes[j], min(sightings[j], 15), 0)
        if estimates[j] == 15:
            # A saturated counter says "at least": this batch's sightings alone may be more.
            estimates[j] = max(np.int64(15), sightings[j])
        total += min(sightings[j], 15)
        value = density(float(estimates[j]), sizes_min[j], rows_per_drain, window_rows)
        chosen[j] = bar == 0 or bin_of(value) > bar
    return total
