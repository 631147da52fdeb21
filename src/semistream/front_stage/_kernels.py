"""Kernels of the density front stage: a hash table over a region of memory that may be a mapped file.

    sketch | arena of entries -> free <- slots

An entry is one key of R with all its rows (none: the key is known to be absent):

    header (4) | key | row | row | ... | padding to 4 bytes

with header = frequency (12 bits, in quarters) | rows (20); rows know their own size. A slot (4) is the
entry's position + 1 in 4-byte units, and as many bits of the hash as are left above it; 0 is free. Entries
leave only when the arena is compacted, so a probe needs no tombstones. Every byte saved here is a byte of
rows cached.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import hash_address, mix64
from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import (
    copy_bytes,
    load_u32,
    load_u64,
    move_bytes,
    multiply_high,
    store_u32,
    store_u64,
)
from semistream.core._row_kernels import row_bytes, row_fits
from semistream.core.contracts import MISS, NULL_KEY
from semistream.front_stage._sketch_kernels import bin_of, density, sketch_raise

ONE = 4  # a frequency of one, in the quarters that entries count in: halving keeps fractions
FREQUENCY_MAX = 4095
ROWS_MAX = (1 << 20) - 1
UNIT_BYTES = 4


@njit(cache=True, inline="always")
def _frequency(header):  # type: ignore[no-untyped-def]
    return np.int64(header & np.uint32(0xFFF))


@njit(cache=True, inline="always")
def _rows(header):  # type: ignore[no-untyped-def]
    return np.int64(header >> np.uint32(12))


@njit(cache=True, inline="always")
def _pack(frequency, rows):  # type: ignore[no-untyped-def]
    return np.uint32(frequency | (rows << 12))


@njit(cache=True, inline="always")
def _first_row(entry, fixed):  # type: ignore[no-untyped-def]
    return entry + (12 if fixed else 8 + np.int64(load_u32(entry + 4)))


@njit(cache=True)
def _size(entry, fixed, variable_at, variable, end_bytes):  # type: ignore[no-untyped-def]
    row = _first_row(entry, fixed)
    for _ in range(_rows(load_u32(entry))):
        row += row_bytes(row, variable_at, variable, end_bytes)
    return (row - entry + UNIT_BYTES - 1) // UNIT_BYTES * UNIT_BYTES


@njit(cache=True)
def entry_bytes(key_bytes, body_bytes):  # type: ignore[no-untyped-def]
    """Arena bytes of an entry; key_bytes counts all that stands between the header and the rows."""
    return (4 + key_bytes + body_bytes + UNIT_BYTES - 1) // UNIT_BYTES * UNIT_BYTES


@njit(cache=True, inline="always")
def _entry_of(arena, slots, slot_count, position_bits, fixed, word, hashed, at, size):  # type: ignore[no-untyped-def]
    """Where the key's entry is, or MISS."""
    slot_at = np.int64(multiply_high(hashed, np.uint64(slot_count)))
    tag = np.uint32(hashed & np.uint64((1 << (32 - position_bits)) - 1))
    position_mask = np.uint32((1 << position_bits) - 1)
    while True:
        slot = load_u32(slots + 4 * slot_at)
        if slot == np.uint32(0):
            return np.int64(MISS)
        if slot >> np.uint32(position_bits) == tag:
            entry = arena + (np.int64(slot & position_mask) - 1) * UNIT_BYTES
            if fixed:
                same = load_u64(entry + 4) == word
            else:
                same = compare_bytes(entry + 8, np.int64(load_u32(entry + 4)), at, size) == 0
            if same:
                return entry
        slot_at += 1
        if slot_at == slot_count:
            slot_at = np.int64(0)


@njit(cache=True, nogil=True)
def probe(  # type: ignore[no-untyped-def]
    arena,
    slots,
    slot_count,
    position_bits,
    fixed,
    prefix,
    valid,
    hashes,
    offsets,
    data,
    start,
    misses_max,
    out,
):
    """out[i - start] = the entry's address of row i, MISS or NULL_KEY; counts each hit in its entry. Ends with the
    rows, or when misses_max of them missed.

    Returns (rows looked up, rows with a match, rows known to have none, null keys)."""
    present = absent = nulls = misses = 0
    i = start
    while i < prefix.size and misses < misses_max:
        entry = np.int64(NULL_KEY)
        if not valid[i]:
            nulls += 1
        else:
            at = data + offsets[i] if not fixed else np.int64(0)
            size = offsets[i + 1] - offsets[i] if not fixed else np.int64(8)
            entry = _entry_of(arena, slots, slot_count, position_bits, fixed, prefix[i], hashes[i], at, size)
            if entry == MISS:
                misses += 1
            else:
                header = load_u32(entry)
                if _frequency(header) <= FREQUENCY_MAX - ONE:
                    store_u32(entry, np.uint32(header + np.uint32(ONE)))
                if _rows(header):
                    present += 1
                else:
                    absent += 1
        out[i - start] = entry
        i += 1
    return i - start, present, absent, nulls


@njit(cache=True, nogil=True)
def forget_known(  # type: ignore[no-untyped-def]
    arena, slots, slot_count, position_bits, fixed, prefix, hashes, offsets, data, chosen
):
    """Of the chosen keys, those that have an entry are not chosen any more."""
    for k in range(prefix.size):
        if chosen[k]:
            at = data + offsets[k] if not fixed else np.int64(0)
            size = offsets[k + 1] - offsets[k] if not fixed else np.int64(8)
            if (
                _entry_of(arena, slots, slot_count, position_bits, fixed, prefix[k], hashes[k], at, size)
                != MISS
            ):
                chosen[k] = False


@njit(cache=True, nogil=True)
def pairs(  # type: ignore[no-untyped-def]
    entries, fixed, variable_at, variable, end_bytes, every_match, once, absent, pair_bytes, limit_bytes,
    state, index, rows,
):  # fmt: skip
    """Fills (index, rows) with output pairs from where `state` = (i, rows of it done, next row) stands.

    every_match: one pair per row of the entry; once: one pair with row 0 if it has rows; absent: one pair
    with row 0 if it has none. A pair counts pair_bytes[i] and its row's size against limit_bytes, which only a
    single pair may exceed. Returns the number of pairs; the work is done when state[0] = entries.size.
    """
    filled = 0
    left = np.int64(limit_bytes)
    i, done, at = state[0], state[1], state[2]
    while i < entries.size and filled < index.size and left > 0:
        entry = entries[i]
        if entry == MISS:
            i += 1
            continue
        count = _rows(load_u32(entry)) if entry != NULL_KEY else np.int64(0)
        if count == 0 or not every_match:
            if (count == 0 and absent) or (count > 0 and once):
                index[filled] = i
                rows[filled] = 0
                filled += 1
                left -= pair_bytes[i]
            i += 1
            continue
        if done == 0:
            at = _first_row(entry, fixed)
        while done < count and filled < index.size:
            size = row_bytes(at, variable_at, variable, end_bytes)
            if filled > 0 and left < pair_bytes[i] + size:
                left = np.int64(0)
                break
            index[filled] = i
            rows[filled] = at
            filled += 1
            done += 1
            left -= pair_bytes[i] + size
            at += size
        if done < count:
            break
        done = 0
        i += 1
    state[0], state[1], state[2] = i, done, at
    return filled


@njit(cache=True, nogil=True)
def insert(  # type: ignore[no-untyped-def]
    arena, arena_end, slots, slot_count, position_bits, slot_limit, state,
    fixed, prefix, hashes, offsets, data,
    row_counts, body_bytes, estimates, rows_per_drain, window_rows, bar, size_limit, slot_bytes,
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
        value = density(float(estimates[j]), size + slot_bytes, rows_per_drain, window_rows)
        if bar > 0 and bin_of(value) <= bar:
            continue
        if state[0] + size > arena_end or state[1] >= slot_limit:
            refused += 1
            continue
        entry = arena + state[0]
        store_u32(entry, _pack(min(estimates[j] * ONE, FREQUENCY_MAX), row_counts[j]))
        if fixed:
            store_u64(entry + 4, prefix[j])
        else:
            store_u32(entry + 4, np.uint32(key_bytes - 4))
            copy_bytes(entry + 8, data + offsets[j], key_bytes - 4)
        at = entry + 4 + key_bytes
        for r in range(row_counts[j]):
            rows_at[placed] = at
            at += row_sizes[first_row + r]
            placed += 1
        _take_slot(slots, slot_count, position_bits, hashes[j], state[0])
        inserted[j] = True
        state[0] += size
        state[1] += 1
        state[2] += row_counts[j]
    return placed, refused


@njit(cache=True, inline="always")
def _slot(position_bits, key_hash, offset):  # type: ignore[no-untyped-def]
    tag = np.int64(key_hash & np.uint64((1 << (32 - position_bits)) - 1))
    return np.uint32((tag << position_bits) | (offset // UNIT_BYTES + 1))


@njit(cache=True)
def _take_slot(slots, slot_count, position_bits, key_hash, offset):  # type: ignore[no-untyped-def]
    at = np.int64(multiply_high(key_hash, np.uint64(slot_count)))
    while load_u32(slots + 4 * at) != np.uint32(0):
        at += 1
        if at == slot_count:
            at = np.int64(0)
    store_u32(slots + 4 * at, _slot(position_bits, key_hash, offset))


@njit(cache=True)
def _has_slot(slots, slot_count, position_bits, key_hash, offset):  # type: ignore[no-untyped-def]
    """Would a probe for this hash come to the entry at `offset`?"""
    at = np.int64(multiply_high(key_hash, np.uint64(slot_count)))
    wanted = _slot(position_bits, key_hash, offset)
    for _ in range(slot_count):
        found = load_u32(slots + 4 * at)
        if found == wanted:
            return True
        if found == np.uint32(0):
            return False
        at += 1
        if at == slot_count:
            at = np.int64(0)
    return False


@njit(cache=True)
def _entry_hash(entry, fixed):  # type: ignore[no-untyped-def]
    if fixed:
        return mix64(load_u64(entry + 4))
    return hash_address(entry + 8, np.int64(load_u32(entry + 4)), np.uint64(0))


@njit(cache=True, nogil=True)
def weigh(  # type: ignore[no-untyped-def]
    arena, tail, fixed, variable_at, variable, end_bytes, halve, rows_per_drain, window_rows, slot_bytes,
    bytes_in_bin,
):  # fmt: skip
    """Adds up the bytes per density bin; with `halve`, ages every entry first."""
    at = np.int64(0)
    while at < tail:
        header = load_u32(arena + at)
        size = _size(arena + at, fixed, variable_at, variable, end_bytes)
        frequency = _frequency(header)
        if halve:
            frequency >>= 1
            store_u32(arena + at, _pack(frequency, _rows(header)))
        value = density(frequency / ONE, size + slot_bytes, rows_per_drain, window_rows)
        bytes_in_bin[bin_of(value)] += size
        at += size


@njit(cache=True, nogil=True)
def compact(  # type: ignore[no-untyped-def]
    arena, state, fixed, variable_at, variable, end_bytes, rows_per_drain, window_rows, slot_bytes,
    bar, bar_room, sketch, lines,
):  # fmt: skip
    """Keeps the entries above the bar and as many at the bar as bar_room bytes allow, closing the gaps.

    What leaves is remembered in the sketch, so that it can come back without proving itself anew.
    """
    at = kept = np.int64(0)
    entries = rows = 0
    while at < state[0]:
        header = load_u32(arena + at)
        size = _size(arena + at, fixed, variable_at, variable, end_bytes)
        value = density(_frequency(header) / ONE, size + slot_bytes, rows_per_drain, window_rows)
        place = bin_of(value)
        stays = place > bar
        if place == bar and bar_room >= size:
            stays = True
            bar_room -= size
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
def rebuild_slots(  # type: ignore[no-untyped-def]
    arena, tail, slots, slot_count, position_bits, fixed, variable_at, variable, end_bytes
):
    for i in range(slot_count):
        store_u32(slots + 4 * i, np.uint32(0))
    at = np.int64(0)
    while at < tail:
        _take_slot(slots, slot_count, position_bits, _entry_hash(arena + at, fixed), at)
        at += _size(arena + at, fixed, variable_at, variable, end_bytes)


@njit(cache=True, nogil=True)
def is_sound(  # type: ignore[no-untyped-def]
    arena, tail, entries, rows, slots, slot_count, position_bits, fixed, variable_at, variable, end_bytes
):
    """Does the chain of entries end exactly at the tail, with every row inside it, and are the slots those
    of the entries and no others? A mapped file is believed only after this."""
    at = np.int64(0)
    seen_entries = seen_rows = 0
    smallest = 12 if fixed else 8
    while at < tail:
        if at + smallest > tail:
            return False
        row = _first_row(arena + at, fixed) - arena
        if row > tail:
            return False
        count = _rows(load_u32(arena + at))
        for _ in range(count):
            if not row_fits(arena + row, tail - row, variable_at, variable, end_bytes):
                return False
            row += row_bytes(arena + row, variable_at, variable, end_bytes)
        if not _has_slot(slots, slot_count, position_bits, _entry_hash(arena + at, fixed), at):
            return False
        seen_entries += 1
        seen_rows += count
        at = (row + UNIT_BYTES - 1) // UNIT_BYTES * UNIT_BYTES
    if at != tail or seen_entries != entries or seen_rows != rows or entries >= slot_count:
        return False
    used = 0
    for i in range(slot_count):
        used += load_u32(slots + 4 * i) != np.uint32(0)
    return used == entries
