"""Kernels of the LRU front stage: list 0 has who was asked for longest ago first."""

from __future__ import annotations

from numba import njit

from semistream.front_stage._table_kernels import ENTRIES, HEAD, create, evict, fits, move


@njit(cache=True, nogil=True)
def touch(place, records):  # type: ignore[no-untyped-def]
    for record in records:
        if record > 0:
            move(place, 0, record)


@njit(cache=True, nogil=True)
def take(place, newcomers, hashes, sizes, size_max):  # type: ignore[no-untyped-def]
    for j in range(newcomers.size):
        if sizes[j] > size_max:
            continue
        while place.state[ENTRIES] and not fits(place, sizes[j]):
            evict(place, newcomers, place.lists[0, HEAD])
        create(place, newcomers, j, hashes[j], sizes[j], 0, 0, True)
