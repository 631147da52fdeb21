"""Kernels of the page cache. Pages of R are numbered through all shards, with one number between two shards that no
page has; `slot_of[page]` is the slot of `memory` that holds the page, or one of the marks below.

    key --fences--> pages --slot_of--> slots --search--> entry = 1 + (slot << 32 | row)

Whoever calls has verified what is in the slots.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import copy_bytes, load_u16, load_u32, load_u64
from semistream.core._row_kernels import row_bytes
from semistream.core.contracts import MISS, NULL_KEY
from semistream.master_table._page_kernels import SUM_BYTES, _compare_row, _row_start, _search

ABSENT = -2  # an answer: R does not have the key

# Marks of pages without a slot: nobody asked in this step; whole keys were met; some rows of a key were.
AWAY, MET, PARTED = -1, -2, -3

UTILITY_MAX = 1 << 30


@njit(cache=True)
def _count_of(page):  # type: ignore[no-untyped-def]
    return np.int64(load_u32(page + 8))


@njit(cache=True)
def _key_at(page, row, short, fixed):  # type: ignore[no-untyped-def]
    """(where the key of a row begins, its bytes)"""
    at = page + _row_start(page, row, short) + SUM_BYTES
    if fixed:
        return at, np.int64(8)
    size = np.int64(load_u16(at)) if short == 2 else np.int64(load_u32(at))
    return at + short, size


@njit(cache=True)
def _is_repeated(k, fixed, prefix, offsets, data):  # type: ignore[no-untyped-def]
    """Is key k of the sorted keys the one before it?"""
    if k == 0 or prefix[k] != prefix[k - 1]:
        return False
    if fixed:
        return True
    before, at, end = offsets[k - 1], offsets[k], offsets[k + 1]
    return compare_bytes(data + before, at - before, data + at, end - at) == 0


@njit(cache=True, nogil=True)
def look_up(  # type: ignore[no-untyped-def]
    first_page, last_page, base, pages, slot_of, memory, page_bytes, short,
    fixed, prefix, offsets, data, entries, first_used, last_used,
):  # fmt: skip
    """What one shard, whose `pages` pages are numbered from `base` on, says about some sorted keys that no other
    shard has answered: an entry, or MISS unless all pages that may hold the key are in memory. Where the answer
    comes from is noted as a range of pages."""
    for k in range(prefix.size):
        if _is_repeated(k, fixed, prefix, offsets, data):
            entries[k] = entries[k - 1]
            first_used[k], last_used[k] = first_used[k - 1], last_used[k - 1]
            continue
        if entries[k] > 0:
            continue
        first, last = base + first_page[k], base + last_page[k]
        is_here = last < base + pages
        page = first
        while is_here and page <= last:
            is_here = slot_of[page] >= 0
            page += 1
        if not is_here:
            entries[k] = MISS
            continue
        key = data + offsets[k] if not fixed else np.int64(0)
        key_size = offsets[k + 1] - offsets[k] if not fixed else np.int64(8)
        for page in range(first, last + 1):
            first_used[k], last_used[k] = first, last
            at = memory + np.int64(slot_of[page]) * page_bytes
            rows = _count_of(at)
            row = _search(at, page_bytes, rows, short, fixed, prefix[k], key, key_size)
            if row < rows:
                start = at + _row_start(at, row, short)
                if _compare_row(start, at + page_bytes, short, fixed, prefix[k], key, key_size) == 0:
                    entries[k] = 1 + (np.int64(slot_of[page]) << 32 | row)
                    break


@njit(cache=True, nogil=True)
def settle(entries, first_used, last_used, misses_max, utility):  # type: ignore[no-untyped-def]
    """Ends with the last miss that was asked for; every page that an answer came from gets a point. Returns (rows,
    those present, absent, with a null key)."""
    present = absent = nulls = misses = 0
    for i in range(entries.size):
        entry = entries[i]
        if entry == NULL_KEY:
            nulls += 1
        elif entry == MISS:
            misses += 1
            if misses == misses_max:
                return i + 1, present, absent, nulls
        else:
            if entry == ABSENT:
                absent += 1
            else:
                present += 1
            for page in range(first_used[i], last_used[i] + 1):
                utility[page] = min(utility[page] + 1, UTILITY_MAX)
    return entries.size, present, absent, nulls


@njit(cache=True, nogil=True)
def pairs(  # type: ignore[no-untyped-def]
    entries, memory, page_bytes, page_of, slot_of, short, fixed, variable_at, variable, end_bytes,
    every_match, once, absent, pair_bytes, limit_bytes, state, index, rows,
):  # fmt: skip
    """Fills (index, rows) with output pairs from where state = (answer, 1 + slot, row) stands; a slot of 0 means that
    the answer was not begun. A pair counts its stream row's bytes and its master row's against limit_bytes, which only
    a single pair may exceed. Returns the number of pairs; the work is done when state[0] = entries.size."""
    filled = 0
    left = limit_bytes
    i = state[0]
    while i < entries.size:
        entry = entries[i]
        if entry <= 0 or not every_match:
            if (entry > 0 and once) or (entry < 0 and absent):
                if filled == index.size or (filled > 0 and left < pair_bytes[i]):
                    break
                index[filled], rows[filled] = i, 0
                filled += 1
                left -= pair_bytes[i]
            i += 1
            continue
        if state[1] == 0:
            state[1], state[2] = ((entry - 1) >> 32) + 1, (entry - 1) & 0xFFFFFFFF
        slot, row = state[1] - 1, state[2]
        is_full = False
        while slot >= 0:
            page = memory + slot * page_bytes
            key, key_size = _key_at(page, row, short, fixed)
            values = key + key_size
            size = pair_bytes[i] + row_bytes(values, variable_at, variable, end_bytes)
            if filled == index.size or (filled > 0 and left < size):
                state[1], state[2] = slot + 1, row
                is_full = True
                break
            index[filled], rows[filled] = i, values
            filled += 1
            left -= size
            row += 1
            if row == _count_of(page):
                slot, row = np.int64(slot_of[page_of[slot] + 1]), np.int64(0)
                page = memory + slot * page_bytes
            if slot >= 0:
                other, other_size = _key_at(page, row, short, fixed)
                if fixed:
                    is_same = load_u64(other) == load_u64(key)
                else:
                    is_same = compare_bytes(key, key_size, other, other_size) == 0
                if not is_same:
                    slot = np.int64(-1)
        if is_full:
            break
        state[1] = 0
        i += 1
    state[0] = i
    return filled


@njit(cache=True, nogil=True)
def note(first_page, last_page, base, pages, sightings, counts, whole, slot_of, utility, reach):  # type: ignore[no-untyped-def]
    """Stream rows met keys of a shard's pages: each page gets a point per row, and a mark if it has no slot. `reach`
    is the range of pages that have marks. A key that is served by earlier reads counts no more."""
    for k in range(counts.size):
        if not whole[k] and counts[k] == 0:
            continue
        for page in range(base + first_page[k], base + min(last_page[k], pages - 1) + 1):
            utility[page] = min(utility[page] + sightings[k], UTILITY_MAX)
            if slot_of[page] < 0:
                if not whole[k]:
                    slot_of[page] = PARTED
                elif slot_of[page] == AWAY:
                    slot_of[page] = MET
                reach[0], reach[1] = min(reach[0], page), max(reach[1], page)


@njit(cache=True)
def _sift_down(heap, count, utility):  # type: ignore[no-untyped-def]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= count:
            return
        if child + 1 < count and utility[heap[child + 1]] < utility[heap[child]]:
            child += 1
        if utility[heap[parent]] <= utility[heap[child]]:
            return
        heap[parent], heap[child] = heap[child], heap[parent]
        parent = child


@njit(cache=True, nogil=True)
def most_useful(low, high, floor, slot_of, utility, heap):  # type: ignore[no-untyped-def]
    """The pages low..high that are marked MET and have more than `floor` points, the most useful ones if `heap` cannot
    hold all. Takes all marks away; returns how many pages there are."""
    count = 0
    for page in range(low, high + 1):
        mark = slot_of[page]
        if mark >= 0:
            continue
        slot_of[page] = AWAY
        if mark != MET or utility[page] <= floor:
            continue
        if count < heap.size:
            heap[count] = page
            count += 1
            child = count - 1
            while child > 0 and utility[heap[child]] < utility[heap[(child - 1) // 2]]:
                parent = (child - 1) // 2
                heap[parent], heap[child] = heap[child], heap[parent]
                child = parent
        elif heap.size and utility[page] > utility[heap[0]]:
            heap[0] = page
            _sift_down(heap, count, utility)
    return count


@njit(cache=True, nogil=True)
def halve(utility):  # type: ignore[no-untyped-def]
    for page in range(utility.size):
        utility[page] >>= 1


@njit(cache=True, nogil=True)
def copy_pages(page_at, slots, memory, page_bytes):  # type: ignore[no-untyped-def]
    """Returns the rows that the pages say they have."""
    rows = np.int64(0)
    for i in range(page_at.size):
        copy_bytes(memory + slots[i] * page_bytes, page_at[i], page_bytes)
        rows += _count_of(page_at[i])
    return rows


@njit(cache=True, nogil=True)
def census(slots, memory, page_bytes, short, fixed):  # type: ignore[no-untyped-def]
    """(keys, rows) in some slots; a key whose rows span pages counts in each."""
    keys = rows = np.int64(0)
    for i in range(slots.size):
        page = memory + slots[i] * page_bytes
        count = _count_of(page)
        rows += count
        for row in range(count):
            at, size = _key_at(page, row, short, fixed)
            if row > 0:
                before, before_size = _key_at(page, row - 1, short, fixed)
                keys += compare_bytes(before, before_size, at, size) != 0
            else:
                keys += 1
    return keys, rows
