"""Kernels of the balanced front stage. A record's word is its f_count; its list says where it stands."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.front_stage._answer_kernels import same_key
from semistream.front_stage._table_kernels import (
    HEAD,
    NEXT,
    RECORD_BYTES,
    WORD,
    chain,
    cost,
    create,
    evict,
    fits,
    get,
    move,
    put,
)

# H_R, sB, and who came into H_R since the last eviction.
CACHED, SWITCHING, ENTERED = range(3)
LISTS = 3
BUCKET_BYTES = 4
COUNT_MAX = (1 << 32) - 1


@njit(cache=True, nogil=True)
def count_hits(place, records):  # type: ignore[no-untyped-def]
    """003 Alg. 1 line 19."""
    for record in records:
        if record > 0:
            put(place, record, WORD, min(get(place, record, WORD) + 1, COUNT_MAX))


@njit(cache=True, nogil=True)
def take(  # type: ignore[no-untyped-def]
    place, newcomers, hashes, sightings, sizes, waiting_row_bytes, switching_factor, size_max, which
):
    """003 Alg. 1 lines 31-34: those whose waiting rows take more than their entry would, while there is room."""
    for j in range(newcomers.size):
        m_disk = sightings[j] * waiting_row_bytes
        m_cache = sizes[j] + RECORD_BYTES + BUCKET_BYTES
        if m_disk > switching_factor * m_cache and sizes[j] <= size_max and fits(place, sizes[j]):
            create(place, newcomers, j, hashes[j], sizes[j], which, 0, which != SWITCHING)


@njit(cache=True, nogil=True)
def move_in(place, fixed):  # type: ignore[no-untyped-def]
    """003 Alg. 1 line 10: sB becomes part of H_R. A key that got in twice is moved once."""
    record = place.lists[SWITCHING, HEAD]
    nobody = np.zeros(0, np.int64)
    while record:
        after = get(place, record, NEXT)
        if same_key(place, fixed, record):
            evict(place, nobody, record)
        else:
            move(place, ENTERED, record)
            chain(place, record)
        record = after


@njit(cache=True, nogil=True)
def evict_dear(place, cycles, waiting_row_bytes, switching_factor):  # type: ignore[no-untyped-def]
    """003 Alg. 1 lines 43-50, for all keys whose hits were counted for so many cycles; the others' count starts now."""
    nobody = np.zeros(0, np.int64)
    record = place.lists[CACHED, HEAD]
    while record:
        after = get(place, record, NEXT)
        m_disk = get(place, record, WORD) / cycles * waiting_row_bytes
        if cost(place, record) + BUCKET_BYTES >= switching_factor * m_disk:
            evict(place, nobody, record)
        else:
            put(place, record, WORD, 0)
        record = after
    record = place.lists[ENTERED, HEAD]
    while record:
        after = get(place, record, NEXT)
        put(place, record, WORD, 0)
        move(place, CACHED, record)
        record = after
