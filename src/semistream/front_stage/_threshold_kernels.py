"""Kernels of the threshold front stage: the list that a record is in is its frequency."""

from __future__ import annotations

from numba import njit

from semistream.front_stage._table_kernels import ENTRIES, HEAD, LIST, NEXT, create, evict, fits, get, move


@njit(cache=True, nogil=True)
def count_hits(place, records):  # type: ignore[no-untyped-def]
    """One access more for each row that hit; returns how many did."""
    most = place.lists.shape[0] - 1
    hits = 0
    for record in records:
        if record > 0:
            hits += 1
            frequency = get(place, record, LIST)
            if frequency < most:
                move(place, frequency + 1, record)
    return hits


@njit(cache=True, nogil=True)
def raise_to(place, records, frequencies):  # type: ignore[no-untyped-def]
    """Keys that came in while rows still waited for them."""
    most = place.lists.shape[0] - 1
    for j in range(records.size):
        frequency = min(frequencies[j], most)
        if records[j] > 0 and get(place, records[j], LIST) < frequency:
            move(place, frequency, records[j])


@njit(cache=True, nogil=True)
def take(place, newcomers, hashes, frequencies, sizes, size_max):  # type: ignore[no-untyped-def]
    """Everyone comes in, in the place of the least frequent ones; of these the oldest leave first."""
    most = place.lists.shape[0] - 1
    least = 0
    for j in range(newcomers.size):
        if sizes[j] > size_max:
            continue
        while place.state[ENTRIES] and not fits(place, sizes[j]):
            while place.lists[least, HEAD] == 0:
                least += 1
            evict(place, newcomers, place.lists[least, HEAD])
        frequency = min(frequencies[j], most)
        create(place, newcomers, j, hashes[j], sizes[j], frequency, 0, True)
        least = min(least, frequency)


@njit(cache=True, nogil=True)
def halve(place):  # type: ignore[no-untyped-def]
    """Every frequency becomes half of what it was; who had less stays before who had more."""
    for frequency in range(1, place.lists.shape[0]):
        record = place.lists[frequency, HEAD]
        while record:
            after = get(place, record, NEXT)
            move(place, frequency // 2, record)
            record = after
