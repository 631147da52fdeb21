"""Kernels of the entry table that look keys up and turn entries into output pairs."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import load_u32, load_u64
from semistream.core._row_kernels import row_bytes
from semistream.core.contracts import MISS, NULL_KEY
from semistream.front_stage._table_kernels import AT, CHAIN, NEW, TAG, bucket_of, entry_of, get, tag_of


@njit(cache=True)
def find(place, fixed, tag, word, key, key_bytes):  # type: ignore[no-untyped-def]
    """The record of a key (fixed: the word, else the bytes at `key`), or 0. Those without a place are not found."""
    record = np.int64(place.buckets[bucket_of(place, tag)])
    while record:
        if get(place, record, TAG) == tag and not get(place, record, AT) & NEW:
            entry = entry_of(place, record)
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
    entry = entry_of(place, record)
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
            elif load_u32(entry_of(place, record) + 4):
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
            entry = entry_of(place, records[i])
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
