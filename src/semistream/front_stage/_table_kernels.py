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

from semistream.core._hash_kernels import hash_address, mix64
from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import copy_bytes, load_u32, load_u64, move_bytes, store_u32, store_u64
from semistream.core._row_kernels import row_bytes
from semistream.core.contracts import MISS, NULL_KEY

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
def _entry(place, record):  # type: ignore[no-untyped-def]
    return place.base + (get(place, record, AT) - 1) * UNIT_BYTES


@njit(cache=True, inline="always")
def tag_of(hashed):  # type: ignore[no-untyped-def]
    return np.int64(hashed >> np.uint64(32))


@njit(cache=True, inline="always")
def _bucket(place, tag):  # type: ignore[no-untyped-def]
    return (tag * place.buckets.size) >> 32


@njit(cache=True)
def entry_bytes(fixed, key_bytes, body_bytes):  # type: ignore[no-untyped-def]
    head = 16 if fixed else 12 + key_bytes
    return (head + body_bytes + UNIT_BYTES - 1) // UNIT_BYTES * UNIT_BYTES


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
    bucket = _bucket(place, get(place, record, TAG))
    put(place, record, CHAIN, place.buckets[bucket])
    place.buckets[bucket] = record


@njit(cache=True)
def _relink(place, record, follower):  # type: ignore[no-untyped-def]
    """Who pointed to the record in its bucket points to the follower; nobody did if it was not chained."""
    bucket = _bucket(place, get(place, record, TAG))
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
        entry = _entry(place, record)
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
        store_u32(_entry(place, record), np.uint32(number))


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


# -- answers -------------------------------------------------------------------------------------------------


@njit(cache=True)
def find(place, fixed, tag, word, key, key_bytes):  # type: ignore[no-untyped-def]
    """The record of a key (fixed: the word, else the bytes at `key`), or 0. Those without a place are not found."""
    record = np.int64(place.buckets[_bucket(place, tag)])
    while record:
        if get(place, record, TAG) == tag and not get(place, record, AT) & NEW:
            entry = _entry(place, record)
            if fixed:
                if load_u64(entry + 8) == word:
                    return record
            else:
                size = np.int64(load_u32(entry + 8))
                if size == key_bytes and compare_bytes(entry + 12, size, key, key_bytes) == 0:
                    return record
        record = get(place, record, CHAIN)
    return record


@njit(cache=True)
def same_key(place, fixed, record):  # type: ignore[no-untyped-def]
    """The record that probes find for the key of this one, or 0."""
    entry = _entry(place, record)
    tag = get(place, record, TAG)
    if fixed:
        return find(place, True, tag, load_u64(entry + 8), np.int64(0), np.int64(0))
    return find(place, False, tag, np.uint64(0), entry + 12, np.int64(load_u32(entry + 8)))


@njit(cache=True, nogil=True)
def probe(place, fixed, prefix, valid, hashes, offsets, data, start, misses_max, out):  # type: ignore[no-untyped-def]
    """out[i - start] = the record of row i's key, MISS or NULL_KEY. Ends with the rows, or when misses_max of them
    missed.

    Returns (rows looked up, rows with a match, rows known to have none, null keys)."""
    present = absent = nulls = misses = 0
    i = start
    while i < prefix.size and misses < misses_max:
        if valid[i]:
            key = key_bytes = np.int64(0)
            if not fixed:
                key, key_bytes = data + offsets[i], offsets[i + 1] - offsets[i]
            record = find(place, fixed, tag_of(hashes[i]), prefix[i], key, key_bytes)
            out[i - start] = record
            if record == MISS:
                misses += 1
            elif load_u32(_entry(place, record) + 4):
                present += 1
            else:
                absent += 1
        else:
            out[i - start] = NULL_KEY
            nulls += 1
        i += 1
    return i - start, present, absent, nulls


@njit(cache=True)
def first_row(entry, fixed):  # type: ignore[no-untyped-def]
    return entry + (16 if fixed else 12 + np.int64(load_u32(entry + 8)))


@njit(cache=True, nogil=True)
def pairs(  # type: ignore[no-untyped-def]
    place, records, fixed, variable_at, variable, end_bytes, every_match, once, absent, pair_bytes, limit_bytes,
    state, index, rows,
):  # fmt: skip
    """Fills (index, rows) with output pairs from where `state` = (i, rows of it done, next row) stands.

    every_match: one pair per row of the entry; once: one pair with row 0 if it has rows; absent: one pair
    with row 0 if it has none. A pair counts pair_bytes[i] and its row's size against limit_bytes, which only a
    single pair may exceed. Returns the number of pairs; the work is done when state[0] = records.size.
    """
    filled, used = 0, np.int64(0)
    i, done, at = state[0], state[1], state[2]
    is_full = False
    while i < records.size and not is_full:
        count = np.int64(0)
        if records[i] > 0:
            entry = _entry(place, records[i])
            count = np.int64(load_u32(entry + 4))
            if done == 0:
                at = first_row(entry, fixed)
        wanted = count if every_match else np.int64(once and count > 0)
        if count == 0:
            wanted = np.int64(absent and records[i] != MISS)
        while done < wanted:
            size = np.int64(pair_bytes[i])
            row_size = np.int64(0)
            if every_match and count:
                row_size = row_bytes(at, variable_at, variable, end_bytes)
            if filled == index.size or (filled > 0 and used + size + row_size > limit_bytes):
                is_full = True
                break
            index[filled] = i
            rows[filled] = at if every_match and count else 0
            filled += 1
            used += size + row_size
            at += row_size
            done += 1
        if not is_full:
            done = 0
            i += 1
    state[0], state[1], state[2] = i, done, at
    return filled


# -- proof ---------------------------------------------------------------------------------------------------


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
            if _bucket(place, get(place, record, TAG)) != bucket or get(place, record, SIZE) == 0:
                return -1
            found += 1
            if found > place.state[ENTRIES]:
                return -1
            record = get(place, record, CHAIN)
    return found
