"""Kernels of the W-TinyLFU front stage. A record's word is the lower half of its key's hash."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core.contracts import NULL_KEY
from semistream.front_stage._sketch_kernels import sketch_raise
from semistream.front_stage._table_kernels import (
    BYTES,
    HEAD,
    LIST,
    TAG,
    WORD,
    cost,
    create,
    evict,
    get,
    move,
)

WINDOW, PROBATION, PROTECTED = range(3)
LISTS = 3
LOWER = np.uint64(0xFFFFFFFF)


@njit(cache=True)
def _frequency(place, sketch, lines, record):  # type: ignore[no-untyped-def]
    hashed = np.uint64(get(place, record, TAG)) << np.uint64(32) | np.uint64(get(place, record, WORD))
    return sketch_raise(sketch, lines, hashed, 0, 0)


@njit(cache=True, nogil=True)
def touch(place, records, hashes, start, sketch, lines, protected_max):  # type: ignore[no-untyped-def]
    """Counts everyone, and moves those who hit. Returns how many were counted."""
    counted = 0
    for i in range(records.size):
        record = records[i]
        if record == NULL_KEY:
            continue
        sketch_raise(sketch, lines, hashes[start + i], 1, 0)
        counted += 1
        if record > 0:
            which = get(place, record, LIST)
            move(place, WINDOW if which == WINDOW else PROTECTED, record)
            while place.lists[PROTECTED, BYTES] > protected_max:
                move(place, PROBATION, place.lists[PROTECTED, HEAD])
    return counted


@njit(cache=True)
def _let_in(place, newcomers, candidate, sketch, lines, main_max):  # type: ignore[no-untyped-def]
    """The candidate, who leaves the window, stays if it is more frequent than who has to leave for it."""
    frequency = np.int64(-1)
    size = cost(place, candidate)
    while place.lists[PROBATION, BYTES] + place.lists[PROTECTED, BYTES] + size > main_max:
        victim = place.lists[PROBATION, HEAD]
        if victim == 0:
            victim = place.lists[PROTECTED, HEAD]
        if frequency < 0:
            frequency = _frequency(place, sketch, lines, candidate)
        if victim == 0 or frequency <= _frequency(place, sketch, lines, victim):
            evict(place, newcomers, candidate)
            return
        evict(place, newcomers, victim)
    move(place, PROBATION, candidate)


@njit(cache=True, nogil=True)
def take(place, newcomers, hashes, sizes, size_max, window_max, main_max, sketch, lines):  # type: ignore[no-untyped-def]
    for j in range(newcomers.size):
        if sizes[j] <= size_max:
            create(place, newcomers, j, hashes[j], sizes[j], WINDOW, np.int64(hashes[j] & LOWER), True)
            while place.lists[WINDOW, BYTES] > window_max:
                _let_in(place, newcomers, place.lists[WINDOW, HEAD], sketch, lines, main_max)
