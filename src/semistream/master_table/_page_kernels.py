"""Kernels of the page format: filling pages, verifying them, finding keys in fences and rows in pages.

A page is

    checksum (8) | row count (4) | page number (4) | row offsets ... -> free <- ... rows

Rows stand in key order; the offset of row i is entry i. A row is its key bytes (8 bytes for a fixed-width
key, else a length and the bytes) and its values in the layout of `core.rows`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import checksum, mix64
from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import (
    copy_bytes,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    store_u16,
    store_u32,
    store_u64,
    swap_bytes,
)

HEADER_BYTES = 16
_COUNT_AT = 8
_NUMBER_AT = 12


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
            store_u64(at, swap_bytes(prefix[i]))
            rows_at[i - start] = at + 8
        else:
            size = offsets[i + 1] - offsets[i]
            _store_short(at, size, short)
            copy_bytes(at + short, data + offsets[i], size)
            rows_at[i - start] = at + short + size


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
def separator_bytes(a, a_size, b, b_size):  # type: ignore[no-untyped-def]
    """For keys a < b: the length of the shortest prefix of b above a."""
    i = np.int64(0)
    while i < a_size and i < b_size and load_u8(a + i) == load_u8(b + i):
        i += 1
    return min(i + 1, b_size)


@njit(cache=True, nogil=True)
def separators(first, offsets, data, last, last_size, continues, lengths):  # type: ignore[no-untyped-def]
    """For the rows `first` that open a page: does the page continue the key before, and how many bytes of
    its key tell it from the key before."""
    for j in range(first.size):
        i = first[j]
        at = data + offsets[i]
        size = offsets[i + 1] - offsets[i]
        if i == 0:
            before, before_size = last, last_size
        else:
            before, before_size = data + offsets[i - 1], offsets[i] - offsets[i - 1]
        if before_size >= 0 and compare_bytes(before, before_size, at, size) == 0:
            continues[j] = 1
            lengths[j] = size
        else:
            continues[j] = 0
            lengths[j] = separator_bytes(before, max(before_size, np.int64(0)), at, size)


@njit(cache=True)
def _page_seed(seed, number):  # type: ignore[no-untyped-def]
    return mix64(seed ^ np.uint64(number))


@njit(cache=True, nogil=True)
def seal_pages(buffer, page_bytes, count, first_number, seed):  # type: ignore[no-untyped-def]
    for i in range(count):
        page = buffer + i * page_bytes
        store_u32(page + _NUMBER_AT, np.uint32(first_number + i))
        store_u64(page, checksum(page + 8, page_bytes - 8, _page_seed(seed, first_number + i)))


@njit(cache=True, nogil=True)
def is_intact(page, page_bytes, number, seed):  # type: ignore[no-untyped-def]
    """Are these the bytes that were written as this page? (seed: of the shard file)"""
    return load_u64(page) == checksum(page + 8, page_bytes - 8, _page_seed(seed, number))


@njit(cache=True, nogil=True)
def first_damaged(buffer, page_bytes, count, first_number, seed):  # type: ignore[no-untyped-def]
    for i in range(count):
        if not is_intact(buffer + i * page_bytes, page_bytes, first_number + i, seed):
            return i
    return -1


@njit(cache=True, nogil=True)
def locate_words(fences, continues, keys, first_page, last_page):  # type: ignore[no-untyped-def]
    """The pages that can hold each of the sorted keys (fixed width). Below all fences: first > last."""
    low = np.int64(0)
    for k in range(keys.size):
        # Sorted keys move right only; the search starts where the last one ended.
        high = fences.size
        step = np.int64(1)
        while low + step < fences.size and fences[low + step] <= keys[k]:
            low += step
            step *= 2
        high = min(low + step, fences.size)
        left = low
        while left < high:
            middle = (left + high) // 2
            if fences[middle] <= keys[k]:
                left = middle + 1
            else:
                high = middle
        page = left - 1
        last_page[k] = page
        while page > 0 and continues[page] and fences[page] == keys[k]:
            page -= 1
        first_page[k] = max(page, np.int64(0))
        low = max(left - 1, np.int64(0))


@njit(cache=True, nogil=True)
def locate_bytes(  # type: ignore[no-untyped-def]
    fence_offsets, fence_data, continues, offsets, data, count, first_page, last_page
):
    """The same for keys of any length."""
    pages = continues.size
    low = np.int64(0)
    for k in range(count):
        at = data + offsets[k]
        size = offsets[k + 1] - offsets[k]
        left, high = low, pages
        while left < high:
            middle = (left + high) // 2
            start = fence_offsets[middle]
            if compare_bytes(fence_data + start, fence_offsets[middle + 1] - start, at, size) <= 0:
                left = middle + 1
            else:
                high = middle
        page = left - 1
        last_page[k] = page
        while page > 0 and continues[page]:
            start = fence_offsets[page]
            if compare_bytes(fence_data + start, fence_offsets[page + 1] - start, at, size) != 0:
                break
            page -= 1
        first_page[k] = max(page, np.int64(0))
        low = max(left - 1, np.int64(0))


@njit(cache=True)
def _compare_row_key(at, short, fixed, prefix, key, key_size):  # type: ignore[no-untyped-def]
    if fixed:
        word = swap_bytes(load_u64(at))
        if word == prefix:
            return 0
        return -1 if word < prefix else 1
    return compare_bytes(at + short, _load_short(at, short), key, key_size)


@njit(cache=True)
def _sane_bytes(row, room, fixed_bytes, variable, short):  # type: ignore[no-untyped-def]
    """The size of a row's values; -1 if it contradicts itself or leaves its page. `variable` counts its
    variable columns."""
    if fixed_bytes > room:
        return np.int64(-1)
    before = np.int64(0)
    for j in range(variable):
        end = _load_short(row + fixed_bytes - (variable - j) * short, short)
        if end < before:
            return np.int64(-1)
        before = end
    size = fixed_bytes + before
    return size if size <= room else np.int64(-1)


@njit(cache=True)
def _key_fits(page, offset, page_bytes, short, fixed):  # type: ignore[no-untyped-def]
    """Does the key of the row at `offset` end inside the page?"""
    if fixed:
        return offset + 8 <= page_bytes
    return offset + short <= page_bytes and offset + short + _load_short(page + offset, short) <= page_bytes


# How `match` ends
WINDOW_DONE = 0
GATHER_FULL = 1
DAMAGED = 2

# What it remembers from one call to the next
KEY, SLOT, ROW, VERIFIED, ROWS, BYTES = range(6)


@njit(cache=True, nogil=True)
def match(  # type: ignore[no-untyped-def]
    buffer, page_bytes, seed, pages, window, window_end, short,
    fixed_bytes, variable,
    fixed, prefix, offsets, data,
    first_slot, last_slot, state, counts,
    gather, gather_bytes, row_at,
):  # fmt: skip
    """Copies the values of all rows of the keys, page by page, into the gather buffer.

    The buffer holds pages[window:window_end]; key k may be in the pages of slots first_slot[k] to
    last_slot[k]. Goes on where `state` stands until the keys' pages lie behind the window, or the gather
    buffer is full; counts[k] and row_at grow by the rows found. A page is verified when it is first touched.
    """
    k, slot, row = state[KEY], state[SLOT], state[ROW]
    rows_found, used = state[ROWS], state[BYTES]
    outcome = WINDOW_DONE
    while k < prefix.size:
        slot = max(slot, first_slot[k])
        key = data + offsets[k] if not fixed else np.int64(0)
        key_size = offsets[k + 1] - offsets[k] if not fixed else np.int64(8)
        while slot <= last_slot[k] and slot < window_end:
            page = buffer + (slot - window) * page_bytes
            if slot > state[VERIFIED]:
                if not is_intact(page, page_bytes, pages[slot], seed):
                    outcome = DAMAGED
                    break
                state[VERIFIED] = slot
            rows = np.int64(load_u32(page + _COUNT_AT))
            if HEADER_BYTES + rows * short > page_bytes:
                outcome = DAMAGED
                break
            if row < 0:
                left, right = np.int64(0), rows
                while left < right and outcome == WINDOW_DONE:
                    middle = (left + right) // 2
                    offset = _load_short(page + HEADER_BYTES + middle * short, short)
                    if not _key_fits(page, offset, page_bytes, short, fixed):
                        outcome = DAMAGED
                    elif _compare_row_key(page + offset, short, fixed, prefix[k], key, key_size) < 0:
                        left = middle + 1
                    else:
                        right = middle
                row = left
            while row < rows and outcome == WINDOW_DONE:
                offset = _load_short(page + HEADER_BYTES + row * short, short)
                if not _key_fits(page, offset, page_bytes, short, fixed):
                    outcome = DAMAGED
                    break
                at = page + offset
                if _compare_row_key(at, short, fixed, prefix[k], key, key_size) != 0:
                    break
                values = at + (8 if fixed else short + key_size)
                size = _sane_bytes(values, page + page_bytes - values, fixed_bytes, variable, short)
                if size < 0:
                    outcome = DAMAGED
                elif used + size > gather_bytes or rows_found == row_at.size:
                    outcome = GATHER_FULL
                else:
                    copy_bytes(gather + used, values, size)
                    row_at[rows_found] = gather + used
                    used += size
                    rows_found += 1
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
    state[KEY], state[SLOT], state[ROW] = k, slot, row
    state[ROWS], state[BYTES] = rows_found, used
    return outcome
