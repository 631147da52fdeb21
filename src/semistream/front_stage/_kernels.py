"""Kernels of the density front stage: a hash table over a region of memory that may be a mapped file.

    sketch | arena of entries -> free <- slots

An entry is one key of R with all its rows (none: the key is known to be absent):

    header (8) | key | row | row | ... | padding to 8 bytes

with header = frequency (16 bits, in eighths) | rows (20) | size in 8-byte units (28). A slot is a tag of 24
hash bits and the entry's position + 1 in 8-byte units; 0 is free. Entries leave only when the arena is
compacted, so a probe needs no tombstones.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from semistream.core._hash_kernels import hash_address, mix64
from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import (
    copy_bytes,
    load_u8,
    load_u32,
    load_u64,
    move_bytes,
    multiply_high,
    store_u8,
    store_u32,
    store_u64,
)
from semistream.core._row_kernels import row_bytes
from semistream.core.contracts import MISS, NULL_KEY

ONE = 8  # a frequency of one, in the eighths that entries count in: halving keeps fractions
FREQUENCY_MAX = 65535
ROWS_MAX = (1 << 20) - 1
UNITS_MAX = (1 << 28) - 1
_POSITION_BITS = np.uint64((1 << 40) - 1)
_TAG = np.uint64(0xFFFFFF)

BINS = 4096  # of density, for choosing what stays without sorting: 16 per power of two


@njit(cache=True, inline="always")
def _frequency(header):  # type: ignore[no-untyped-def]
    return np.int64(header & np.uint64(0xFFFF))


@njit(cache=True, inline="always")
def _rows(header):  # type: ignore[no-untyped-def]
    return np.int64((header >> np.uint64(16)) & np.uint64(0xFFFFF))


@njit(cache=True, inline="always")
def _size(header):  # type: ignore[no-untyped-def]
    return np.int64(header >> np.uint64(36)) * 8


@njit(cache=True, inline="always")
def _pack(frequency, rows, size):  # type: ignore[no-untyped-def]
    return np.uint64(frequency) | (np.uint64(rows) << np.uint64(16)) | (np.uint64(size // 8) << np.uint64(36))


@njit(cache=True)
def entry_bytes(key_bytes, body_bytes):  # type: ignore[no-untyped-def]
    """Arena bytes of an entry; key_bytes counts what stands before the rows."""
    return (8 + key_bytes + body_bytes + 7) // 8 * 8


@njit(cache=True, nogil=True)
def probe(arena, slots, slot_count, fixed, prefix, valid, hashes, offsets, data, out):  # type: ignore[no-untyped-def]
    """out[i] = the entry's address, MISS or NULL_KEY; counts each hit in its entry.

    Returns (rows with a match, rows known to have none, null keys)."""
    count = np.uint64(slot_count)
    for i in range(prefix.size):
        # A pass of its own: these loads are independent of each other, so their cache misses overlap.
        out[i] = np.int64(multiply_high(hashes[i], count))
    present = absent = nulls = 0
    for i in range(prefix.size):
        if not valid[i]:
            out[i] = NULL_KEY
            nulls += 1
            continue
        position = out[i]
        tag = hashes[i] & _TAG
        out[i] = MISS
        while True:
            slot = load_u64(slots + 8 * position)
            if slot == np.uint64(0):
                break
            if slot >> np.uint64(40) == tag:
                entry = arena + (np.int64(slot & _POSITION_BITS) - 1) * 8
                if fixed:
                    same = load_u64(entry + 8) == prefix[i]
                else:
                    size = offsets[i + 1] - offsets[i]
                    found = np.int64(load_u32(entry + 8))
                    same = compare_bytes(entry + 12, found, data + offsets[i], size) == 0
                if same:
                    header = load_u64(entry)
                    if _frequency(header) <= FREQUENCY_MAX - ONE:
                        store_u64(entry, header + np.uint64(ONE))
                    if _rows(header):
                        present += 1
                    else:
                        absent += 1
                    out[i] = entry
                    break
            position += 1
            if position == slot_count:
                position = 0
    return present, absent, nulls


@njit(cache=True, nogil=True)
def pairs(  # type: ignore[no-untyped-def]
    entries, fixed, fixed_bytes, last_end_at, end_bytes, every_match, once, absent, state, index, rows
):
    """Fills (index, rows) with output pairs from where `state` = (i, rows of it done, next row) stands.

    every_match: one pair per row of the entry; once: one pair with row 0 if it has rows; absent: one pair
    with row 0 if it has none. Returns the number of pairs; the work is done when state[0] = entries.size.
    """
    filled = 0
    i, done, at = state[0], state[1], state[2]
    while i < entries.size:
        entry = entries[i]
        if entry == MISS:
            i += 1
            continue
        count = _rows(load_u64(entry)) if entry != NULL_KEY else np.int64(0)
        if count == 0 or not every_match:
            if (count == 0 and absent) or (count > 0 and once):
                if filled == index.size:
                    break
                index[filled] = i
                rows[filled] = 0
                filled += 1
            i += 1
            continue
        if done == 0:
            at = entry + (16 if fixed else 12 + np.int64(load_u32(entry + 8)))
        while done < count and filled < index.size:
            index[filled] = i
            rows[filled] = at
            filled += 1
            done += 1
            if done < count:
                at += row_bytes(at, fixed_bytes, last_end_at, end_bytes)
        if done < count:
            break
        done = 0
        i += 1
    state[0], state[1], state[2] = i, done, at
    return filled


# The sketch: 4-bit counters, four per key, all four in one cache line.


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


@njit(cache=True, nogil=True)
def insert(  # type: ignore[no-untyped-def]
    arena, arena_end, slots, slot_count, slot_limit, state,
    fixed, prefix, hashes, offsets, data,
    row_counts, body_bytes, estimates, rows_per_drain, window_rows, bar, size_limit,
    rows_at, row_sizes, inserted,
):  # fmt: skip
    """Appends entries while they fit and are dense enough; state = (tail, entries, rows cached).

    rows_at receives where every row of an inserted key goes (in order); inserted[j] marks the keys.
    Returns (rows placed, keys refused for want of room).
    """
    placed = refused = 0
    row = 0
    for j in range(prefix.size):
        key_bytes = np.int64(8) if fixed else 4 + offsets[j + 1] - offsets[j]
        size = entry_bytes(key_bytes, body_bytes[j])
        inserted[j] = False
        first_row = row
        row += row_counts[j]
        if size > size_limit or row_counts[j] > ROWS_MAX:
            continue
        value = density(float(estimates[j]), size + 10, rows_per_drain, window_rows)
        if bar > 0 and bin_of(value) <= bar:
            continue
        if state[0] + size > arena_end or state[1] >= slot_limit:
            refused += 1
            continue
        entry = arena + state[0]
        store_u64(entry, _pack(min(estimates[j] * ONE, FREQUENCY_MAX), row_counts[j], size))
        if fixed:
            store_u64(entry + 8, prefix[j])
        else:
            store_u32(entry + 8, np.uint32(key_bytes - 4))
            copy_bytes(entry + 12, data + offsets[j], key_bytes - 4)
        at = entry + 8 + key_bytes
        for r in range(row_counts[j]):
            rows_at[placed] = at
            at += row_sizes[first_row + r]
            placed += 1
        _take_slot(slots, slot_count, hashes[j], state[0])
        inserted[j] = True
        state[0] += size
        state[1] += 1
        state[2] += row_counts[j]
    return placed, refused


@njit(cache=True)
def _take_slot(slots, slot_count, key_hash, offset):  # type: ignore[no-untyped-def]
    position = np.int64(multiply_high(key_hash, np.uint64(slot_count)))
    while load_u64(slots + 8 * position) != np.uint64(0):
        position += 1
        if position == slot_count:
            position = 0
    store_u64(slots + 8 * position, ((key_hash & _TAG) << np.uint64(40)) | np.uint64(offset // 8 + 1))


@njit(cache=True)
def _entry_hash(entry, fixed):  # type: ignore[no-untyped-def]
    if fixed:
        return mix64(load_u64(entry + 8))
    return hash_address(entry + 12, np.int64(load_u32(entry + 8)), np.uint64(0))


@njit(cache=True, nogil=True)
def weigh(arena, tail, halve, rows_per_drain, window_rows, slot_bytes, bytes_in_bin):  # type: ignore[no-untyped-def]
    """Adds up the bytes per density bin; with `halve`, ages every entry first."""
    at = np.int64(0)
    while at < tail:
        header = load_u64(arena + at)
        size = _size(header)
        frequency = _frequency(header)
        if halve:
            frequency >>= 1
            store_u64(arena + at, _pack(frequency, _rows(header), size))
        value = density(frequency / ONE, size + slot_bytes, rows_per_drain, window_rows)
        bytes_in_bin[bin_of(value)] += size + slot_bytes
        at += size


@njit(cache=True, nogil=True)
def compact(  # type: ignore[no-untyped-def]
    arena, state, fixed, rows_per_drain, window_rows, slot_bytes, bar, bar_room, sketch, lines
):
    """Keeps the entries above the bar and as many at the bar as bar_room bytes allow, closing the gaps.

    What leaves is remembered in the sketch, so that it can come back without proving itself anew.
    """
    at = kept = np.int64(0)
    entries = rows = 0
    while at < state[0]:
        header = load_u64(arena + at)
        size = _size(header)
        value = density(_frequency(header) / ONE, size + slot_bytes, rows_per_drain, window_rows)
        place = bin_of(value)
        stays = place > bar
        if place == bar and bar_room >= size + slot_bytes:
            stays = True
            bar_room -= size + slot_bytes
        if stays:
            if kept != at:
                move_bytes(arena + kept, arena + at, size)
            kept += size
            entries += 1
            rows += _rows(header)
        else:
            key_hash = _entry_hash(arena + at, fixed)
            sketch_raise(sketch, lines, key_hash, 0, min(_frequency(header) // ONE, 15))
        at += size
    state[0], state[1], state[2] = kept, entries, rows


@njit(cache=True, nogil=True)
def rebuild_slots(arena, tail, slots, slot_count, fixed):  # type: ignore[no-untyped-def]
    for i in range(slot_count):
        store_u64(slots + 8 * i, np.uint64(0))
    at = np.int64(0)
    while at < tail:
        _take_slot(slots, slot_count, _entry_hash(arena + at, fixed), at)
        at += _size(load_u64(arena + at))


@njit(cache=True, nogil=True)
def is_sound(arena, tail, entries, rows, slots, slot_count, fixed, fixed_bytes, last_end_at, end_bytes):  # type: ignore[no-untyped-def]
    """Does the chain of entries end exactly at the tail, with every row inside its entry and every entry
    in a slot? A mapped file is believed only after this."""
    at = np.int64(0)
    seen_entries = seen_rows = 0
    while at < tail:
        if at + 16 > tail:
            return False
        entry = arena + at
        header = load_u64(entry)
        size = _size(header)
        key_bytes = np.int64(8) if fixed else 4 + np.int64(load_u32(entry + 8))
        if size < 16 or at + size > tail or 8 + key_bytes > size:
            return False
        row = entry + 8 + key_bytes
        for _ in range(_rows(header)):
            if row + fixed_bytes > entry + size:
                return False
            row += row_bytes(row, fixed_bytes, last_end_at, end_bytes)
            if row > entry + size:
                return False
        seen_entries += 1
        seen_rows += _rows(header)
        at += size
    if at != tail or seen_entries != entries or seen_rows != rows or entries >= slot_count:
        return False
    used = 0
    for i in range(slot_count):
        slot = load_u64(slots + 8 * i)
        if slot != np.uint64(0):
            used += 1
            if (np.int64(slot & _POSITION_BITS) - 1) * 8 + 16 > tail:
                return False
    return used == entries
