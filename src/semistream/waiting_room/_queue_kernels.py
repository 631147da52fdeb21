"""Kernels of the queue room: H_S, a hash table of the distinct keys that wait, each with a list of its rows; and
Q, a list of all rows in the order of their arrival. Both lists are doubly linked, so any row can leave at any time.

    slots -> keys -> rows of the key (SAME_NEXT, SAME_PREV)
                     rows in order of arrival (NEXT, PREV)

A slot holds a key's number and 31 bits of its hash, so that a search for a key that nobody waits for, as most of R's
are, touches nothing but slots.

Rows and keys are numbers into arrays; -1 ends a list. Numbers that became free are kept in a list of their own, and
used before new ones: memory that was never needed is never touched.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import hash_address, mix64
from semistream.core._key_kernels import compare_bytes, prefix_at
from semistream.core._memory import copy_bytes, load_u16, load_u32, load_u64, multiply_high, swap_bytes
from semistream.master_table._page_kernels import HEADER_BYTES, SUM_BYTES

# Columns of `links`, one line a row
SAME_NEXT, SAME_PREV, NEXT, PREV, KEY, MET, CHARGE = range(7)
LINKS = 7
# Columns of `meta`, one line a key
HEAD, COUNT, SHARD = range(3)
METAS = 3
# Columns of `spans`, one line a key: where the bytes of a key of any length are, and their hash
START, SIZE, HASH = range(3)
SPANS = 3
# Fields of `state`
OLDEST, NEWEST, ROWS, KEYS, CHARGED = range(5)
FREE_ROW, NEW_ROW, FREE_KEY, NEW_KEY, HEAP_USED, HEAP_LIVE, MARKER, BEFORE_MARKER = range(5, 13)
STATES = 13
END = -1
KEY_MASK = (1 << 32) - 1
TAG_MASK = np.uint64((1 << 31) - 1)


@njit(cache=True, nogil=True)
def clear(slots, state):  # type: ignore[no-untyped-def]
    slots[:] = END
    state[:] = 0
    state[OLDEST] = state[NEWEST] = state[MARKER] = state[FREE_ROW] = state[FREE_KEY] = END


@njit(cache=True, inline="always")
def _hash_of(key, fixed, words, spans):  # type: ignore[no-untyped-def]
    return mix64(words[key]) if fixed else np.uint64(spans[key, HASH])


@njit(cache=True)
def _find(word, hashed, at, size, fixed, words, spans, heap, slots):  # type: ignore[no-untyped-def]
    """(the key's number or -1, the slot where the search ended)"""
    slot = _home(hashed, slots)
    tag = np.int64(hashed & TAG_MASK)
    while True:
        entry = slots[slot]
        if entry < 0:
            return np.int64(END), slot
        if entry >> 32 == tag:
            key = entry & KEY_MASK
            if words[key] == word and (
                fixed
                or (spans[key, SIZE] == size and compare_bytes(heap + spans[key, START], size, at, size) == 0)
            ):
                return key, slot
        slot = _next(slot, slots)


@njit(cache=True, inline="always")
def _home(hashed, slots):  # type: ignore[no-untyped-def]
    return np.int64(multiply_high(hashed, np.uint64(slots.size)))


@njit(cache=True, inline="always")
def _next(slot, slots):  # type: ignore[no-untyped-def]
    return slot + 1 if slot + 1 < slots.size else np.int64(0)


@njit(cache=True, inline="always")
def _distance(slot, behind, slots):  # type: ignore[no-untyped-def]
    return behind - slot if behind >= slot else behind - slot + slots.size


@njit(cache=True, inline="always")
def _slot_of(key, hashed):  # type: ignore[no-untyped-def]
    return np.int64(hashed & TAG_MASK) << 32 | np.int64(key)


@njit(cache=True, nogil=True)
def charge(index, row_sizes, offsets, base, factor, key_factor, left_bytes, charges):  # type: ignore[no-untyped-def]
    """What each row costs while it waits, `base` and so much per byte; returns how many of the first rows fit
    left_bytes, with key_factor per byte of keys that are no single words (0: they are)."""
    left = np.float64(left_bytes)
    for i in range(index.size):
        charges[i] = np.int32(min(base + factor * row_sizes[index[i]] + 1.0, 2.0**31 - 1))
        left -= charges[i]
        if key_factor > 0.0:
            left -= key_factor * (offsets[index[i] + 1] - offsets[index[i]])
        if left < 0.0:
            return i
    return index.size


@njit(cache=True, nogil=True)
def put(  # type: ignore[no-untyped-def]
    fixed, prefix, hashes, offsets, data, index, charges, shards, first_row, stamp,
    links, row_at, stamps, words, meta, spans, heap, slots, state,
):  # fmt: skip
    """Lets the rows `index` of a batch in; row index[i] of it is row first_row + index[i] of the store."""
    for i in range(index.size):
        source = index[i]
        at = data + offsets[source] if not fixed else np.int64(0)
        size = offsets[source + 1] - offsets[source] if not fixed else np.int64(8)
        key, slot = _find(prefix[source], hashes[source], at, size, fixed, words, spans, heap, slots)
        if key < 0:
            key = state[FREE_KEY]
            if key < 0:
                key = state[NEW_KEY]
                state[NEW_KEY] += 1
            else:
                state[FREE_KEY] = np.int64(meta[key, HEAD])
            slots[slot] = _slot_of(key, hashes[source])
            words[key] = prefix[source]
            meta[key, HEAD], meta[key, COUNT], meta[key, SHARD] = END, 0, shards[i]
            if not fixed:
                spans[key, START], spans[key, SIZE] = state[HEAP_USED], size
                spans[key, HASH] = np.int64(hashes[source])
                copy_bytes(heap + state[HEAP_USED], at, size)
                state[HEAP_USED] += size
                state[HEAP_LIVE] += size
            state[KEYS] += 1
        row = state[FREE_ROW]
        if row < 0:
            row = state[NEW_ROW]
            state[NEW_ROW] += 1
        else:
            state[FREE_ROW] = np.int64(links[row, NEXT])
        head = meta[key, HEAD]
        links[row, SAME_NEXT], links[row, SAME_PREV] = head, END
        if head >= 0:
            links[head, SAME_PREV] = row
        meta[key, HEAD] = np.int32(row)
        meta[key, COUNT] += 1
        links[row, NEXT], links[row, PREV] = END, np.int32(state[NEWEST])
        if state[NEWEST] >= 0:
            links[state[NEWEST], NEXT] = np.int32(row)
        else:
            state[OLDEST] = row
        state[NEWEST] = row
        links[row, KEY], links[row, MET], links[row, CHARGE] = np.int32(key), 0, charges[i]
        state[CHARGED] += charges[i]
        row_at[row] = first_row + source
        stamps[row] = stamp
        state[ROWS] += 1


@njit(cache=True)
def _forget_key(key, fixed, words, meta, spans, heap, slots, state):  # type: ignore[no-untyped-def]
    """Takes a key without rows out of the table; those behind it in the same run of slots move up."""
    size = np.int64(8) if fixed else spans[key, SIZE]
    at = np.int64(0) if fixed else heap + spans[key, START]
    _, hole = _find(
        words[key], _hash_of(key, fixed, words, spans), at, size, fixed, words, spans, heap, slots
    )
    slot = hole
    while True:
        slot = _next(slot, slots)
        other = slots[slot]
        if other < 0:
            break
        home = _home(_hash_of(other & KEY_MASK, fixed, words, spans), slots)
        if _distance(home, slot, slots) >= _distance(hole, slot, slots):
            slots[hole] = other
            hole = slot
    slots[hole] = END
    if not fixed:
        state[HEAP_LIVE] -= size
    meta[key, HEAD] = np.int32(state[FREE_KEY])
    state[FREE_KEY] = key
    state[KEYS] -= 1


@njit(cache=True)
def _unlink(row, links, row_at, state):  # type: ignore[no-untyped-def]
    """Takes a row out of Q; its number is free."""
    if state[MARKER] >= 0:
        if row == state[MARKER]:
            state[MARKER] = links[row, NEXT] if links[row, NEXT] >= 0 else links[row, PREV]
            if links[row, NEXT] < 0:
                state[BEFORE_MARKER] = max(np.int64(0), state[BEFORE_MARKER] - 1)
        elif row_at[row] < row_at[state[MARKER]]:
            state[BEFORE_MARKER] -= 1
    before, behind = links[row, PREV], links[row, NEXT]
    if before >= 0:
        links[before, NEXT] = behind
    else:
        state[OLDEST] = behind
    if behind >= 0:
        links[behind, PREV] = before
    else:
        state[NEWEST] = before
    links[row, NEXT] = np.int32(state[FREE_ROW])
    state[FREE_ROW] = row
    state[ROWS] -= 1
    state[CHARGED] -= links[row, CHARGE]


@njit(cache=True, nogil=True)
def remove_keys(keys, fixed, links, row_at, words, meta, spans, heap, slots, state):  # type: ignore[no-untyped-def]
    """Everyone who waits for these keys leaves."""
    for i in range(keys.size):
        row = np.int64(meta[keys[i], HEAD])
        while row >= 0:
            behind = np.int64(links[row, SAME_NEXT])
            _unlink(row, links, row_at, state)
            row = behind
        _forget_key(keys[i], fixed, words, meta, spans, heap, slots, state)


@njit(cache=True, nogil=True)
def move(  # type: ignore[no-untyped-def]
    fixed, links, row_at, stamps, words, meta, spans, slots, state,
    new_links, new_row_at, new_stamps, new_words, new_meta, new_spans, new_slots, new_state,
):  # fmt: skip
    """Copies everyone, the oldest first, into other tables, which are empty; the keys' bytes stay where they are."""
    key_of = np.full(state[NEW_KEY], END, np.int64)
    row = state[OLDEST]
    number = np.int64(0)
    while row >= 0:
        old_key = np.int64(links[row, KEY])
        key = key_of[old_key]
        if key < 0:
            key = new_state[NEW_KEY]
            key_of[old_key] = key
            new_state[NEW_KEY] += 1
            new_words[key] = words[old_key]
            new_meta[key, HEAD], new_meta[key, COUNT], new_meta[key, SHARD] = END, 0, meta[old_key, SHARD]
            if not fixed:
                new_spans[key] = spans[old_key]
            hashed = _hash_of(old_key, fixed, words, spans)
            slot = _home(hashed, new_slots)
            while new_slots[slot] >= 0:
                slot = _next(slot, new_slots)
            new_slots[slot] = _slot_of(key, hashed)
        new_links[number] = links[row]
        new_links[number, KEY] = np.int32(key)
        new_links[number, PREV], new_links[number, NEXT] = number - 1, number + 1
        head = new_meta[key, HEAD]
        new_links[number, SAME_NEXT], new_links[number, SAME_PREV] = head, END
        if head >= 0:
            new_links[head, SAME_PREV] = number
        new_meta[key, HEAD] = number
        new_meta[key, COUNT] += 1
        new_row_at[number], new_stamps[number] = row_at[row], stamps[row]
        row = np.int64(links[row, NEXT])
        number += 1
    if number:
        new_links[number - 1, NEXT] = END
        new_state[OLDEST], new_state[NEWEST] = 0, number - 1
    new_state[NEW_ROW] = new_state[ROWS] = number
    for field in (KEYS, HEAP_USED, HEAP_LIVE, CHARGED):
        new_state[field] = state[field]


@njit(cache=True, nogil=True)
def oldest(stamp_max, out, links, stamps, state):  # type: ignore[no-untyped-def]
    """The oldest rows whose stamp is at most stamp_max, as many as `out` holds; returns how many."""
    count = 0
    row = state[OLDEST]
    while row >= 0 and count < out.size and stamps[row] <= stamp_max:
        out[count] = row
        count += 1
        row = np.int64(links[row, NEXT])
    return count


@njit(cache=True, nogil=True)
def newest(out, links, state):  # type: ignore[no-untyped-def]
    """The newest rows, as many as `out` holds; returns how many."""
    count = 0
    row = state[NEWEST]
    while row >= 0 and count < out.size:
        out[count] = row
        count += 1
        row = np.int64(links[row, PREV])
    return count


@njit(cache=True, nogil=True)
def remove_rows(rows, fixed, links, row_at, words, meta, spans, heap, slots, state):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        row = rows[i]
        key = np.int64(links[row, KEY])
        behind, before = links[row, SAME_NEXT], links[row, SAME_PREV]
        if before >= 0:
            links[before, SAME_NEXT] = behind
        else:
            meta[key, HEAD] = behind
        if behind >= 0:
            links[behind, SAME_PREV] = before
        meta[key, COUNT] -= 1
        _unlink(row, links, row_at, state)
        if meta[key, COUNT] == 0:
            _forget_key(key, fixed, words, meta, spans, heap, slots, state)


@njit(cache=True, nogil=True)
def key_at(position, links, state):  # type: ignore[no-untyped-def]
    """The key of the row that has `position` others before it in Q. A marker stays near it, so that the walk is
    short where positions change little."""
    if state[MARKER] < 0 or position == 0:
        state[MARKER], state[BEFORE_MARKER] = state[OLDEST], 0
    while state[BEFORE_MARKER] < position and links[state[MARKER], NEXT] >= 0:
        state[MARKER] = links[state[MARKER], NEXT]
        state[BEFORE_MARKER] += 1
    while state[BEFORE_MARKER] > position and links[state[MARKER], PREV] >= 0:
        state[MARKER] = links[state[MARKER], PREV]
        state[BEFORE_MARKER] -= 1
    return np.int64(links[state[MARKER], KEY])


@njit(cache=True, nogil=True)
def count_rows(keys, meta):  # type: ignore[no-untyped-def]
    total = 0
    for i in range(keys.size):
        total += meta[keys[i], COUNT]
    return total


@njit(cache=True, nogil=True)
def rows_of_keys(keys, counts, origin, links, row_at, meta, order, starts):  # type: ignore[no-untyped-def]
    """Lists who waits for each key, as rows of the store from `origin` on; each has met counts[k] more of R."""
    filled = 0
    for k in range(keys.size):
        starts[k] = filled
        row = np.int64(meta[keys[k], HEAD])
        while row >= 0:
            order[filled] = row_at[row] - origin
            links[row, MET] = min(np.int64(links[row, MET]) + counts[k], 1 << 30)
            filled += 1
            row = np.int64(links[row, SAME_NEXT])
    starts[keys.size] = filled


@njit(cache=True, nogil=True)
def key_sizes(keys, spans, sizes):  # type: ignore[no-untyped-def]
    for k in range(keys.size):
        sizes[k] = spans[keys[k], SIZE]


@njit(cache=True, nogil=True)
def key_bytes(keys, spans, heap, offsets, target):  # type: ignore[no-untyped-def]
    for k in range(keys.size):
        copy_bytes(target + offsets[k], heap + spans[keys[k], START], spans[keys[k], SIZE])


@njit(cache=True, nogil=True)
def compact_heap(slots, spans, heap, target, state):  # type: ignore[no-untyped-def]
    """Moves the bytes of the keys that are left to `target`, one after the other."""
    used = np.int64(0)
    for i in range(slots.size):
        if slots[i] >= 0:
            key = slots[i] & KEY_MASK
            copy_bytes(target + used, heap + spans[key, START], spans[key, SIZE])
            spans[key, START] = used
            used += spans[key, SIZE]
    state[HEAP_USED] = used


@njit(cache=True, nogil=True)
def renumber(first, stop, links, row_at, state, kept):  # type: ignore[no-untyped-def]
    """The rows of the store first..stop-1 that are still waited for, oldest first, go to `kept`, and are numbered
    from `first` on; the rows behind them move up. Q is in the store's order. Returns how many were kept."""
    count = np.int64(0)
    row = state[NEWEST]
    while row >= 0 and row_at[row] >= first:
        if row_at[row] < stop:
            count += 1
        row = np.int64(links[row, PREV])
    gone = stop - first - count
    at = count
    row = state[NEWEST]
    while row >= 0 and row_at[row] >= first:
        if row_at[row] < stop:
            at -= 1
            kept[at] = row_at[row] - first
            row_at[row] = first + at
        else:
            row_at[row] -= gone
        row = np.int64(links[row, PREV])
    return count


@njit(cache=True, nogil=True)
def match_pages(  # type: ignore[no-untyped-def]
    page_at, page_bytes, short, fixed, words, spans, heap, slots, found, counts, row_at, result
):
    """Shows all rows of some pages to those who wait. Each key found gets the next place in (found, counts), and its
    rows, which stand side by side, the next ones in row_at.

    Ends before a page that might not fit into row_at. result = (pages done, keys found, rows found, rows seen, is
    the first row's key found, is the last row's).
    """
    keys = rows_found = seen = np.int64(0)
    last_word = np.uint64(0)
    last_at = last_size = np.int64(-1)
    key = np.int64(-1)
    page_number = np.int64(0)
    while page_number < page_at.size:
        page = page_at[page_number]
        rows = np.int64(load_u32(page + 8))
        if rows_found + rows > row_at.size:
            break
        for row in range(rows):
            entry = page + HEADER_BYTES + row * short
            at = page + (np.int64(load_u16(entry)) if short == 2 else np.int64(load_u32(entry))) + SUM_BYTES
            if fixed:
                word = swap_bytes(load_u64(at))
                if last_at < 0 or word != last_word:
                    key, _ = _find(
                        word, mix64(word), np.int64(0), np.int64(8), fixed, words, spans, heap, slots
                    )
                    if key >= 0:
                        found[keys] = key
                        counts[keys] = 0
                        keys += 1
                    last_word = word
                last_at = at
                values = at + 8
            else:
                size = np.int64(load_u16(at)) if short == 2 else np.int64(load_u32(at))
                at += short
                if last_at < 0 or compare_bytes(last_at, last_size, at, size) != 0:
                    key, _ = _find(
                        prefix_at(at, size), hash_address(at, size, np.uint64(0)), at, size,
                        fixed, words, spans, heap, slots,
                    )  # fmt: skip
                    if key >= 0:
                        found[keys] = key
                        counts[keys] = 0
                        keys += 1
                last_at, last_size = at, size
                values = at + size
            if key >= 0:
                row_at[rows_found] = values
                rows_found += 1
                counts[keys - 1] += 1
            if seen == 0 and row == 0:
                result[4] = key >= 0
        seen += rows
        page_number += 1
    result[0], result[1], result[2], result[3], result[5] = page_number, keys, rows_found, seen, key >= 0
