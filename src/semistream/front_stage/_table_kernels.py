"""Kernels of the entry table: keys with all their rows, any of which can leave at any time.

    arena of entries -> free <- records          (one stretch of memory)       buckets, lists (arrays)

An entry is one key of R with all its rows (none: the key is known to be absent):

    record's number (4) | rows (4) | [bytes of the key (4)] | key | row | row | ... | padding to 4 bytes

A dead one starts with DEAD and its size instead; `compact` closes the gaps. Its record (32 bytes, numbered from 1,
from the end of the memory downwards) stays where it is for as long as the entry lives between two `admit`s, so
that policies may link records into lists:

    where the entry is | size | next of its bucket | hash | next, previous of its list | its list | policy's word

Positions and sizes count in 4 bytes, positions from 1. A record whose entry has no place yet has NEW and the
newcomer's index there; a free one has size 0 and is chained through the bucket's link.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from semistream.core._memory import copy_bytes, load_u32, move_bytes, store_u32, store_u64

RECORD_BYTES = 32
UNIT_BYTES = 4
AT, SIZE, CHAIN, TAG, NEXT, PREVIOUS, LIST, WORD = range(0, RECORD_BYTES, 4)
NEW = DEAD = 1 << 31

# The table's counters
TAIL, LIVE, RECORDS, FREE, ENTRIES, ROWS, EVICTIONS, SWITCHED, LIMIT, CAPACITY = range(10)
COUNTERS = 10
# Of a list
HEAD, LAST, BYTES = range(3)


class Place(NamedTuple):
    """Where a table is, as kernels take it. `end` is behind record 1."""

    base: int
    end: int
    buckets: Any  # uint32 per bucket: its first record
    state: Any  # int64: the counters; arena and records may take LIMIT bytes, what lives in them CAPACITY
    lists: Any  # int64 per list: first and last record, bytes


@njit(cache=True, inline="always")
def get(place, record, field):  # type: ignore[no-untyped-def]
    return np.int64(load_u32(place.end - RECORD_BYTES * record + field))


@njit(cache=True, inline="always")
def put(place, record, field, value):  # type: ignore[no-untyped-def]
    store_u32(place.end - RECORD_BYTES * record + field, np.uint32(value))


@njit(cache=True, inline="always")
def cost(place, record):  # type: ignore[no-untyped-def]
    """What an entry takes in all."""
    return get(place, record, SIZE) * UNIT_BYTES + RECORD_BYTES


@njit(cache=True, inline="always")
def entry_of(place, record):  # type: ignore[no-untyped-def]
    return place.base + (get(place, record, AT) - 1) * UNIT_BYTES


@njit(cache=True, inline="always")
def tag_of(hashed):  # type: ignore[no-untyped-def]
    return np.int64(hashed >> np.uint64(32))


@njit(cache=True, inline="always")
def bucket_of(place, tag):  # type: ignore[no-untyped-def]
    return (tag * place.buckets.size) >> 32


# -- lists ---------------------------------------------------------------------------------------------------


@njit(cache=True)
def append(place, which, record):  # type: ignore[no-untyped-def]
    """Makes it the last of the list."""
    last = place.lists[which, LAST]
    put(place, record, LIST, which)
    put(place, record, PREVIOUS, last)
    put(place, record, NEXT, 0)
    if last:
        put(place, last, NEXT, record)
    else:
        place.lists[which, HEAD] = record
    place.lists[which, LAST] = record
    place.lists[which, BYTES] += cost(place, record)


@njit(cache=True)
def unlink(place, record):  # type: ignore[no-untyped-def]
    which = get(place, record, LIST)
    before, after = get(place, record, PREVIOUS), get(place, record, NEXT)
    if before:
        put(place, before, NEXT, after)
    else:
        place.lists[which, HEAD] = after
    if after:
        put(place, after, PREVIOUS, before)
    else:
        place.lists[which, LAST] = before
    place.lists[which, BYTES] -= cost(place, record)


@njit(cache=True)
def move(place, which, record):  # type: ignore[no-untyped-def]
    unlink(place, record)
    append(place, which, record)


# -- coming and going ----------------------------------------------------------------------------------------


@njit(cache=True)
def chain(place, record):  # type: ignore[no-untyped-def]
    """From now on probes find it."""
    bucket = bucket_of(place, get(place, record, TAG))
    put(place, record, CHAIN, place.buckets[bucket])
    place.buckets[bucket] = record


@njit(cache=True)
def _relink(place, record, follower):  # type: ignore[no-untyped-def]
    """Who pointed to the record in its bucket points to the follower; nobody did if it was not chained."""
    bucket = bucket_of(place, get(place, record, TAG))
    at = np.int64(place.buckets[bucket])
    if at == record:
        place.buckets[bucket] = follower
        return
    while at:
        after = get(place, at, CHAIN)
        if after == record:
            put(place, at, CHAIN, follower)
            return
        at = after


@njit(cache=True)
def fits(place, size):  # type: ignore[no-untyped-def]
    """Is there room for another entry of this size, among all that live?"""
    state = place.state
    return state[LIVE] + size + RECORD_BYTES * (state[ENTRIES] + 1) <= state[CAPACITY]


@njit(cache=True)
def create(place, newcomers, j, hashed, size, which, word, chained):  # type: ignore[no-untyped-def]
    """A record for newcomer j, whose entry gets its place later; returns its number."""
    state = place.state
    if state[FREE] == 0 and state[TAIL] + RECORD_BYTES * (state[RECORDS] + 1) > state[LIMIT]:
        compact(place, newcomers)
    record = state[FREE]
    if record:
        state[FREE] = get(place, record, CHAIN)
    else:
        state[RECORDS] += 1
        record = state[RECORDS]
    put(place, record, AT, NEW | j)
    put(place, record, SIZE, size // UNIT_BYTES)
    put(place, record, TAG, tag_of(hashed))
    put(place, record, CHAIN, 0)
    put(place, record, WORD, word)
    append(place, which, record)
    if chained:
        chain(place, record)
    state[LIVE] += size
    state[ENTRIES] += 1
    newcomers[j] = record
    return record


@njit(cache=True)
def evict(place, newcomers, record):  # type: ignore[no-untyped-def]
    state = place.state
    unlink(place, record)
    _relink(place, record, get(place, record, CHAIN))
    at, size = get(place, record, AT), get(place, record, SIZE)
    if at & NEW:
        newcomers[at ^ NEW] = 0
    else:
        entry = entry_of(place, record)
        state[ROWS] -= np.int64(load_u32(entry + 4))
        state[EVICTIONS] += 1
        store_u32(entry, np.uint32(DEAD | size))
    state[LIVE] -= size * UNIT_BYTES
    state[ENTRIES] -= 1
    put(place, record, SIZE, 0)
    put(place, record, CHAIN, state[FREE])
    state[FREE] = record


@njit(cache=True)
def compact(place, newcomers):  # type: ignore[no-untyped-def]
    """Closes all gaps: of dead entries in the arena, and of free records. Records change their numbers."""
    state = place.state
    at = kept = np.int64(0)
    while at < state[TAIL]:
        head = np.int64(load_u32(place.base + at))
        if head & DEAD:
            at += (head ^ DEAD) * UNIT_BYTES
            continue
        size = get(place, head, SIZE) * UNIT_BYTES
        if kept != at:
            move_bytes(place.base + kept, place.base + at, size)
            put(place, head, AT, kept // UNIT_BYTES + 1)
        kept += size
        at += size
    state[TAIL] = kept
    hole = np.int64(1)
    while state[ENTRIES] < state[RECORDS]:
        top = state[RECORDS]
        if get(place, top, SIZE):
            while get(place, hole, SIZE):
                hole += 1
            _renumber(place, newcomers, top, hole)
        state[RECORDS] -= 1
    state[FREE] = 0


@njit(cache=True)
def _renumber(place, newcomers, record, number):  # type: ignore[no-untyped-def]
    copy_bytes(place.end - RECORD_BYTES * number, place.end - RECORD_BYTES * record, RECORD_BYTES)
    _relink(place, record, number)
    which = get(place, record, LIST)
    before, after = get(place, record, PREVIOUS), get(place, record, NEXT)
    if before:
        put(place, before, NEXT, number)
    else:
        place.lists[which, HEAD] = number
    if after:
        put(place, after, PREVIOUS, number)
    else:
        place.lists[which, LAST] = number
    at = get(place, record, AT)
    if at & NEW:
        newcomers[at ^ NEW] = number
    else:
        store_u32(entry_of(place, record), np.uint32(number))


@njit(cache=True, nogil=True)
def settle(place, newcomers, fixed, prefix, offsets, data, counts, row_sizes, rows_at):  # type: ignore[no-untyped-def]
    """Gives the newcomers that are still there their place in the arena; rows_at[i] = where their i-th row goes.
    Returns the number of rows."""
    state = place.state
    total = np.int64(0)
    for j in range(newcomers.size):
        if newcomers[j]:
            total += get(place, newcomers[j], SIZE) * UNIT_BYTES
    if state[TAIL] + total > state[LIMIT] - RECORD_BYTES * state[RECORDS]:
        compact(place, newcomers)
    placed = row = 0
    for j in range(newcomers.size):
        record = newcomers[j]
        if record:
            at = place.base + state[TAIL]
            put(place, record, AT, state[TAIL] // UNIT_BYTES + 1)
            state[TAIL] += get(place, record, SIZE) * UNIT_BYTES
            store_u32(at, np.uint32(record))
            store_u32(at + 4, np.uint32(counts[j]))
            if fixed:
                store_u64(at + 8, prefix[j])
                at += 16
            else:
                size = offsets[j + 1] - offsets[j]
                store_u32(at + 8, np.uint32(size))
                copy_bytes(at + 12, data + offsets[j], size)
                at += 12 + size
            for r in range(counts[j]):
                rows_at[placed] = at
                at += row_sizes[row + r]
                placed += 1
        row += counts[j]
    state[ROWS] += placed
    state[SWITCHED] += placed
    return placed


@njit(cache=True, nogil=True)
def rehash(place, hidden):  # type: ignore[no-untyped-def]
    """Fills empty buckets with the records that were chained in others: all but those in the list `hidden`."""
    for record in range(1, place.state[RECORDS] + 1):
        if get(place, record, SIZE) and get(place, record, LIST) != hidden:
            chain(place, record)


@njit(cache=True, nogil=True)
def length(place, which):  # type: ignore[no-untyped-def]
    """How many records are in the list."""
    record, count = place.lists[which, HEAD], 0
    while record:
        record = get(place, record, NEXT)
        count += 1
    return count
