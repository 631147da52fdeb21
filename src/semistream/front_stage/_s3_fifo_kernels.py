"""Kernels of the S3-FIFO front stage. A record's word is its number of hits, up to 3."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._memory import multiply_high
from semistream.front_stage._table_kernels import (
    BYTES,
    CAPACITY,
    ENTRIES,
    HEAD,
    TAG,
    WORD,
    create,
    evict,
    fits,
    get,
    move,
    put,
    tag_of,
)

SMALL, MAIN = range(2)
LISTS = 2
HITS_MAX = 3
WAYS = 4  # ghosts that share a line; the oldest makes room

# A ghost is 32 bits of hash and the time it came, counted in ghosts; its line follows from the hash.


@njit(cache=True, inline="always")
def _line(ghosts, tag):  # type: ignore[no-untyped-def]
    return WAYS * np.int64(multiply_high(np.uint64(tag) << np.uint64(32), np.uint64(ghosts.shape[0] // WAYS)))


@njit(cache=True)
def remember(ghosts, clock, tag):  # type: ignore[no-untyped-def]
    first = _line(ghosts, tag)
    oldest = first
    for i in range(first, first + WAYS):
        if clock[0] - ghosts[i, 1] > clock[0] - ghosts[oldest, 1]:
            oldest = i
    clock[0] += 1
    ghosts[oldest, 0] = tag
    ghosts[oldest, 1] = clock[0]


@njit(cache=True)
def remembered(ghosts, clock, tag):  # type: ignore[no-untyped-def]
    """Is it among the last ghosts, as many as there is room for? It is forgotten then."""
    first = _line(ghosts, tag)
    for i in range(first, first + WAYS):
        if ghosts[i, 0] == tag and ghosts[i, 1] and clock[0] - ghosts[i, 1] < ghosts.shape[0]:
            ghosts[i, 1] = 0
            return True
    return False


@njit(cache=True, nogil=True)
def touch(place, records):  # type: ignore[no-untyped-def]
    for record in records:
        if record > 0:
            put(place, record, WORD, min(get(place, record, WORD) + 1, HITS_MAX))


@njit(cache=True)
def _evict_from_main(place, newcomers):  # type: ignore[no-untyped-def]
    while True:
        record = place.lists[MAIN, HEAD]
        hits = get(place, record, WORD)
        if hits == 0:
            evict(place, newcomers, record)
            return
        put(place, record, WORD, hits - 1)
        move(place, MAIN, record)


@njit(cache=True)
def _evict_one(place, newcomers, ghosts, clock, small_max):  # type: ignore[no-untyped-def]
    while place.lists[SMALL, HEAD] and (
        place.lists[SMALL, BYTES] >= small_max or not place.lists[MAIN, HEAD]
    ):
        record = place.lists[SMALL, HEAD]
        if get(place, record, WORD) <= 1:
            remember(ghosts, clock, get(place, record, TAG))
            evict(place, newcomers, record)
            return
        put(place, record, WORD, 0)
        move(place, MAIN, record)
        if place.lists[MAIN, BYTES] > place.state[CAPACITY] - small_max:
            _evict_from_main(place, newcomers)
            return
    _evict_from_main(place, newcomers)


@njit(cache=True, nogil=True)
def take(place, newcomers, hashes, sizes, size_max, small_max, ghosts, clock):  # type: ignore[no-untyped-def]
    for j in range(newcomers.size):
        if sizes[j] > size_max:
            continue
        while place.state[ENTRIES] and not fits(place, sizes[j]):
            _evict_one(place, newcomers, ghosts, clock, small_max)
        which = MAIN if remembered(ghosts, clock, tag_of(hashes[j])) else SMALL
        create(place, newcomers, j, hashes[j], sizes[j], which, 0, True)
