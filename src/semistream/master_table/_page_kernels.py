"""Kernels of the page format: filling pages, verifying them, and finding rows in them.

A page is

    checksum (8) | row count (4) | page number (4) | row offsets ... -> free <- ... rows

Row 0 stands at the page's end, row i before row i - 1, in key order; the offset of row i is entry i. A row is
a checksum (4), its key bytes (8 bytes for a fixed-width key, else a length and the bytes) and its values in
the layout of `core.rows`.

The page's checksum is for those who read all of it. A lookup reads a few rows, and verifies those and their
neighbours: a row's checksum depends on its page, its index and the page's row count, so two intact
neighbours with the key between them prove that the key is absent, at a fraction of a page's cost.

Checksums start from the seed of their shard. The pages of a shard whose seed is UNSEALED have none and are not verified:
they were made in memory a moment ago, for a run whose time is counted and not taken.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import checksum, hash_address, mix64
from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import (
    copy_bytes,
    load_u16,
    load_u32,
    load_u64,
    store_u16,
    store_u32,
    store_u64,
    swap_bytes,
)
from semistream.core._row_kernels import row_fits

HEADER_BYTES = 16
SUM_BYTES = 4
_COUNT_AT = 8
_NUMBER_AT = 12

UNSEALED = np.uint64(2**64 - 1)


@njit(cache=True, inline="always")
def _load_short(address, width):  # type: ignore[no-untyped-def]
    return np.int64(load_u16(address)) if width == 2 else np.int64(load_u32(address))


@njit(cache=True, inline="always")
def _store_short(address, value, width):  # type: ignore[no-untyped-def]
    if width == 2:
        store_u16(address, np.uint16(value))
    else:
        store_u32(address, np.uint32(value))


@njit(cache=True, nogil=True)
def plan_rows(sizes, start, page_bytes, page_count, state, short, page_of, offset_of):  # type: ignore[no-untyped-def]
    """Places rows start.. into pages; state = (page, rows in it, end of free space). Returns the first row
    that no longer fits into the page_count pages."""
    page, rows, free_end = state[0], state[1], state[2]
    for i in range(start, sizes.size):
        if HEADER_BYTES + short * (rows + 1) + sizes[i] > free_end:
            if page + 1 == page_count:
                state[0], state[1], state[2] = page, rows, free_end
                return i
            page, rows, free_end = page + 1, 0, page_bytes
        free_end -= sizes[i]
        page_of[i] = page
        offset_of[i] = free_end
        rows += 1
    state[0], state[1], state[2] = page, rows, free_end
    return sizes.size


@njit(cache=True, nogil=True)
def place_keys(  # type: ignore[no-untyped-def]
    buffer, page_bytes, short, fixed, prefix, offsets, data, page_of, offset_of, start, stop, rows_at
):
    """Writes row offsets, counts and keys of rows start..stop-1; rows_at[i] is where the values go."""
    for i in range(start, stop):
        page = buffer + page_of[i] * page_bytes
        count = np.int64(load_u32(page + _COUNT_AT))
        _store_short(page + HEADER_BYTES + count * short, offset_of[i], short)
        store_u32(page + _COUNT_AT, np.uint32(count + 1))
        at = page + offset_of[i]
        if fixed:
            store_u64(at + SUM_BYTES, swap_bytes(prefix[i]))
            rows_at[i - start] = at + SUM_BYTES + 8
        else:
            size = offsets[i + 1] - offsets[i]
            _store_short(at + SUM_BYTES, size, short)
            copy_bytes(at + SUM_BYTES + short, data + offsets[i], size)
            rows_at[i - start] = at + SUM_BYTES + short + size


@njit(cache=True, nogil=True)
def first_unsorted(fixed, prefix, offsets, data, has_last, last_prefix, last, last_size):  # type: ignore[no-untyped-def]
    """The first row whose key is below the one before it, or -1."""
    for i in range(prefix.size):
        if i == 0:
            if not has_last:
                continue
            before, before_at, before_size = last_prefix, last, last_size
        else:
            before = prefix[i - 1]
            before_at = data + offsets[i - 1] if not fixed else np.int64(0)
            before_size = offsets[i] - offsets[i - 1] if not fixed else np.int64(0)
        if prefix[i] > before:
            continue
        if prefix[i] < before:
            return i
        if not fixed:
            size = offsets[i + 1] - offsets[i]
            if compare_bytes(data + offsets[i], size, before_at, before_size) < 0:
                return i
    return -1


@njit(cache=True)
def _page_seed(seed, number):  # type: ignore[no-untyped-def]
    return mix64(seed ^ np.uint64(number))


@njit(cache=True, inline="always")
def _row_seed(seed, number, rows):  # type: ignore[no-untyped-def]
    return mix64(seed ^ np.uint64(number) ^ (np.uint64(rows) << np.uint64(40)))


@njit(cache=True, inline="always")
def _row_start(page, row, short):  # type: ignore[no-untyped-def]
    return _load_short(page + HEADER_BYTES + row * short, short)


@njit(cache=True, inline="always")
def _row_end(page, page_bytes, row, short):  # type: ignore[no-untyped-def]
    return page_bytes if row == 0 else _row_start(page, row - 1, short)


@njit(cache=True)
def _row_sum(page, start, end, row, row_seed):  # type: ignore[no-untyped-def]
    size = end - start - SUM_BYTES
    return np.uint32(
        hash_address(page + start + SUM_BYTES, size, row_seed + np.uint64(row)) & np.uint64(0xFFFFFFFF)
    )


@njit(cache=True)
def _is_row_intact(page, page_bytes, rows, row, short, row_seed):  # type: ignore[no-untyped-def]
    start, end = _row_start(page, row, short), _row_end(page, page_bytes, row, short)
    if start < HEADER_BYTES + rows * short or end > page_bytes or start + SUM_BYTES > end:
        return False
    return load_u32(page + start) == _row_sum(page, start, end, row, row_seed)


@njit(cache=True, nogil=True)
def seal_pages(buffer, page_bytes, count, first_number, short, seed):  # type: ignore[no-untyped-def]
    for i in range(count):
        page = buffer + i * page_bytes
        rows = np.int64(load_u32(page + _COUNT_AT))
        row_seed = _row_seed(seed, first_number + i, rows)
        for row in range(rows):
            start, end = _row_start(page, row, short), _row_end(page, page_bytes, row, short)
            store_u32(page + start, _row_sum(page, start, end, row, row_seed))
        store_u32(page + _NUMBER_AT, np.uint32(first_number + i))
        store_u64(page, checksum(page + 8, page_bytes - 8, _page_seed(seed, first_number + i)))


@njit(cache=True, nogil=True)
def first_damaged(page_at, pages, page_bytes, seed):  # type: ignore[no-untyped-def]
    """The first of the pages whose bytes are not those that were written, or -1."""
    if seed == UNSEALED:
        return -1
    for i in range(pages.size):
        if load_u64(page_at[i]) != checksum(page_at[i] + 8, page_bytes - 8, _page_seed(seed, pages[i])):
            return i
    return -1


@njit(cache=True)
def _compare_row(at, end, short, fixed, prefix, key, key_size):  # type: ignore[no-untyped-def]
    """-1, 0, 1: the key of the row at `at` against the key sought. Reads nothing behind `end`, the page's."""
    at += SUM_BYTES
    if fixed:
        if at + 8 > end:
            return 1
        word = swap_bytes(load_u64(at))
        if word == prefix:
            return 0
        return -1 if word < prefix else 1
    if at + short > end:
        return 1
    return compare_bytes(at + short, min(_load_short(at, short), end - at - short), key, key_size)


@njit(cache=True)
def _search(page, page_bytes, rows, short, fixed, prefix, key, key_size):  # type: ignore[no-untyped-def]
    """The first row whose key is not below the key sought."""
    left, right = np.int64(0), rows
    while left < right:
        middle = (left + right) // 2
        at = page + _row_start(page, middle, short)
        if _compare_row(at, page + page_bytes, short, fixed, prefix, key, key_size) < 0:
            left = middle + 1
        else:
            right = middle
    return left


GROUP_KEYS = 64


@njit(cache=True)
def _search_group(  # type: ignore[no-untyped-def]
    page_at,
    page_bytes,
    window,
    window_end,
    short,
    fixed,
    prefix,
    offsets,
    data,
    first_slot,
    first,
    left,
    right,
):
    """left[g] = `_search` of key first + g in its first page, if that is in the window.

    All searches take a step in turn: a step waits for memory most of the time, and these waits overlap.
    """
    count = np.int64(0)
    while count < GROUP_KEYS and first + count < prefix.size and first_slot[first + count] < window_end:
        left[count] = right[count] = 0
        if first_slot[first + count] >= window:
            page = page_at[first_slot[first + count] - window]
            rows = np.int64(load_u32(page + _COUNT_AT))
            # A damaged count is found out later; here it must only not lead out of the page.
            right[count] = rows if HEADER_BYTES + rows * short <= page_bytes else 0
        count += 1
    left[count:] = 0
    searching = True
    while searching:
        searching = False
        for g in range(count):
            if left[g] < right[g]:
                searching = True
                k = first + g
                page = page_at[first_slot[k] - window]
                middle = (left[g] + right[g]) // 2
                at = page + _row_start(page, middle, short)
                key = data + offsets[k] if not fixed else np.int64(0)
                key_size = offsets[k + 1] - offsets[k] if not fixed else np.int64(8)
                if _compare_row(at, page + page_bytes, short, fixed, prefix[k], key, key_size) < 0:
                    left[g] = middle + 1
                else:
                    right[g] = middle


# How `match` ends
WINDOW_DONE = 0
ROWS_FULL = 1
DAMAGED = 2

# What it remembers from one call to the next
KEY, SLOT, ROW, ROWS = range(4)


@njit(cache=True, nogil=True)
def match(  # type: ignore[no-untyped-def]
    page_at, page_bytes, seed, pages, window, window_end, short,
    variable_at, variable,
    fixed, prefix, offsets, data,
    first_slot, last_slot, state, counts, row_at,
):  # fmt: skip
    """Finds the values of all rows of the keys, page by page; copies nothing.

    Slot s of the plan is page pages[s - window], in memory at page_at[s - window] while the window lasts; key k
    may be in slots first_slot[k] to last_slot[k]. Goes on where `state` stands until the keys' pages lie behind
    the window, or row_at is full; counts[k] and row_at grow by the rows found. Every row that an answer
    depends on is verified: those found, and the one before and behind them.
    """
    k, slot, row = state[KEY], state[SLOT], state[ROW]
    found = state[ROWS]
    outcome = WINDOW_DONE
    is_sealed = seed != UNSEALED
    group = np.int64(-1)
    left, right = np.empty(GROUP_KEYS, np.int64), np.empty(GROUP_KEYS, np.int64)
    while k < prefix.size:
        slot = max(slot, first_slot[k])
        key = data + offsets[k] if not fixed else np.int64(0)
        key_size = offsets[k + 1] - offsets[k] if not fixed else np.int64(8)
        while slot <= last_slot[k] and slot < window_end:
            page = page_at[slot - window]
            end = page + page_bytes
            rows = np.int64(load_u32(page + _COUNT_AT))
            if rows == 0 or HEADER_BYTES + rows * short > page_bytes:
                outcome = DAMAGED
                break
            row_seed = _row_seed(seed, pages[slot - window], rows)
            if row < 0:
                if k >= group + GROUP_KEYS or group < 0:
                    group = k
                    _search_group(
                        page_at, page_bytes, window, window_end, short, fixed, prefix, offsets, data,
                        first_slot, group, left, right,
                    )  # fmt: skip
                if slot == first_slot[k]:
                    row = left[k - group]
                else:
                    row = _search(page, page_bytes, rows, short, fixed, prefix[k], key, key_size)
                if (
                    is_sealed
                    and row > 0
                    and not _is_row_intact(page, page_bytes, rows, row - 1, short, row_seed)
                ):
                    outcome = DAMAGED
                    break
            while row < rows:
                if is_sealed and not _is_row_intact(page, page_bytes, rows, row, short, row_seed):
                    outcome = DAMAGED
                    break
                at = page + _row_start(page, row, short)
                if _compare_row(at, end, short, fixed, prefix[k], key, key_size) != 0:
                    break
                values = at + SUM_BYTES + (8 if fixed else short + key_size)
                room = page + _row_end(page, page_bytes, row, short) - values
                if not row_fits(values, room, variable_at, variable, short):
                    outcome = DAMAGED
                    break
                if found == row_at.size:
                    outcome = ROWS_FULL
                    break
                row_at[found] = values
                found += 1
                counts[k] += 1
                row += 1
            if outcome != WINDOW_DONE:
                break
            slot += 1
            row = np.int64(-1)
        if outcome != WINDOW_DONE or slot <= last_slot[k]:
            break
        k += 1
        slot = np.int64(0)
        row = np.int64(-1)
    state[KEY], state[SLOT], state[ROW], state[ROWS] = k, slot, row, found
    return outcome
