"""Kernels that prove that an entry table holds together."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import hash_address, mix64
from semistream.core._memory import load_u32, load_u64
from semistream.core._row_kernels import row_bytes
from semistream.front_stage._answer_kernels import first_row
from semistream.front_stage._table_kernels import (
    AT,
    BYTES,
    CAPACITY,
    CHAIN,
    DEAD,
    ENTRIES,
    HEAD,
    LAST,
    LIMIT,
    LIST,
    LIVE,
    NEXT,
    PREVIOUS,
    RECORD_BYTES,
    RECORDS,
    ROWS,
    SIZE,
    TAG,
    TAIL,
    UNIT_BYTES,
    bucket_of,
    cost,
    get,
    tag_of,
)


@njit(cache=True, nogil=True)
def flaw(place, fixed, variable_at, variable, end_bytes):  # type: ignore[no-untyped-def]
    """0 if the table holds together, else the number of the first thing that does not."""
    state = place.state
    if state[TAIL] + RECORD_BYTES * state[RECORDS] > state[LIMIT]:
        return 1
    if state[LIVE] + RECORD_BYTES * state[ENTRIES] > state[CAPACITY]:
        return 2
    at = live = entries = rows = np.int64(0)
    while at < state[TAIL]:
        head = np.int64(load_u32(place.base + at))
        if head & DEAD:
            at += (head ^ DEAD) * UNIT_BYTES
            continue
        row = first_row(place.base + at, fixed)
        count = np.int64(load_u32(place.base + at + 4))
        for _ in range(count):
            row += row_bytes(row, variable_at, variable, end_bytes)
        size = (row - place.base - at + UNIT_BYTES - 1) // UNIT_BYTES * UNIT_BYTES
        if head > state[RECORDS] or get(place, head, SIZE) * UNIT_BYTES != size:
            return 3
        if get(place, head, AT) != at // UNIT_BYTES + 1:
            return 4
        if fixed:
            hashed = mix64(load_u64(place.base + at + 8))
        else:
            hashed = hash_address(place.base + at + 12, np.int64(load_u32(place.base + at + 8)), np.uint64(0))
        if get(place, head, TAG) != tag_of(hashed):
            return 5
        live += size
        entries += 1
        rows += count
        at += size
    if at != state[TAIL] or live != state[LIVE] or entries != state[ENTRIES] or rows != state[ROWS]:
        return 6
    linked = np.int64(0)
    for which in range(place.lists.shape[0]):
        record, before, held = place.lists[which, HEAD], np.int64(0), np.int64(0)
        while record and linked <= entries:
            if get(place, record, LIST) != which or get(place, record, PREVIOUS) != before:
                return 7
            held += cost(place, record)
            linked += 1
            before, record = record, get(place, record, NEXT)
        if place.lists[which, LAST] != before or place.lists[which, BYTES] != held:
            return 8
    return 0 if linked == entries else 9


@njit(cache=True, nogil=True)
def chained(place):  # type: ignore[no-untyped-def]
    """How many records probes can find; -1 if one is in the wrong bucket or free."""
    found = np.int64(0)
    for bucket in range(place.buckets.size):
        record = np.int64(place.buckets[bucket])
        while record:
            if bucket_of(place, get(place, record, TAG)) != bucket or get(place, record, SIZE) == 0:
                return -1
            found += 1
            if found > place.state[ENTRIES]:
                return -1
            record = get(place, record, CHAIN)
    return found
