"""Kernels of the queue room: rows come, wait in two lists, and leave; see `_queue_tables` for where they are."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import mix64
from semistream.core._memory import copy_bytes
from semistream.waiting_room._queue_tables import (
    BEFORE_MARKER,
    CHARGE,
    CHARGED,
    COUNT,
    END,
    FREE_KEY,
    FREE_ROW,
    HASH,
    HEAD,
    HEAP_LIVE,
    HEAP_USED,
    KEY,
    KEY_MASK,
    KEYS,
    MARKER,
    MET,
    NEW_KEY,
    NEW_ROW,
    NEWEST,
    NEXT,
    OLDEST,
    PREV,
    ROWS,
    SAME_NEXT,
    SAME_PREV,
    SHARD,
    SIZE,
    START,
    distance,
    find,
    hash_of,
    home,
    next_slot,
    slot_of,
    tables_at,
)

CHARGE_MAX = (1 << 31) - 1


@njit(cache=True, inline="always")
def _charge(size, base, factor):  # type: ignore[no-untyped-def]
    return np.int64(min(base + factor * size + 1.0, CHARGE_MAX))


@njit(cache=True, nogil=True)
def fitting(index, row_sizes, offsets, base, factor, key_factor, left_bytes):  # type: ignore[no-untyped-def]
    """How many of the first rows fit left_bytes, with `base` and so much per byte of the row, and key_factor per
    byte of its key."""
    left = np.float64(left_bytes)
    for i in range(index.size):
        left -= _charge(row_sizes[index[i]], base, factor)
        left -= key_factor * (offsets[index[i] + 1] - offsets[index[i]])
        if left < 0.0:
            return i
    return index.size


@njit(cache=True, nogil=True)
def put(  # type: ignore[no-untyped-def]
    place, prefix, hashes, offsets, data, index, row_sizes, shards, first_row, stamp, base, factor, left_bytes
):
    """Lets the rows `index` of a batch in, as many of the first ones as fit left_bytes; returns how many. Row index[i]
    of the batch is row first_row + index[i] of the store; it costs `base` and so much per byte while it waits."""
    fixed, links, row_at, stamps, words, meta, spans, heap, slots, state = tables_at(place)
    left = np.float64(left_bytes)
    for i in range(index.size):
        source = index[i]
        cost = _charge(row_sizes[source], base, factor)
        left -= cost
        if left < 0.0 or state[ROWS] == row_at.size:
            return i
        at = data + offsets[source] if not fixed else np.int64(0)
        size = offsets[source + 1] - offsets[source] if not fixed else np.int64(8)
        hashed = mix64(prefix[source]) if fixed else hashes[source]
        key, slot = find(prefix[source], hashed, at, size, fixed, words, spans, heap, slots)
        if key < 0:
            key = state[FREE_KEY]
            if key < 0:
                key = state[NEW_KEY]
                state[NEW_KEY] += 1
            else:
                state[FREE_KEY] = np.int64(meta[key, HEAD])
            slots[slot] = slot_of(key, hashed)
            words[key] = prefix[source]
            meta[key, HEAD], meta[key, COUNT], meta[key, SHARD] = END, 0, shards[i]
            if not fixed:
                spans[key, START], spans[key, SIZE] = state[HEAP_USED], size
                spans[key, HASH] = np.int64(hashed)
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
        links[row, KEY], links[row, MET], links[row, CHARGE] = np.int32(key), 0, np.int32(cost)
        state[CHARGED] += cost
        row_at[row] = first_row + source
        stamps[row] = stamp
        state[ROWS] += 1
    return index.size


@njit(cache=True)
def _forget_key(key, fixed, words, meta, spans, heap, slots, state):  # type: ignore[no-untyped-def]
    """Takes a key without rows out of the table; those behind it in the same run of slots move up."""
    size = np.int64(8) if fixed else spans[key, SIZE]
    at = np.int64(0) if fixed else heap + spans[key, START]
    hashed = hash_of(key, fixed, words, spans)
    _, hole = find(words[key], hashed, at, size, fixed, words, spans, heap, slots)
    slot = hole
    while True:
        slot = next_slot(slot, slots)
        entry = slots[slot]
        if entry < 0:
            break
        other = entry & KEY_MASK
        wanted = home(hash_of(other, fixed, words, spans), slots)
        if distance(wanted, slot, slots) >= distance(hole, slot, slots):
            slots[hole] = entry
            hole = slot
    slots[hole] = END
    if not fixed:
        state[HEAP_LIVE] -= size
    meta[key, HEAD], meta[key, COUNT] = np.int32(state[FREE_KEY]), 0
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
def serve(place, keys, counts, leave, origin, order, starts, prefix, shards):  # type: ignore[no-untyped-def]
    """Lists who waits for each key, as rows of the store from `origin` on; each has met counts[k] more of R now. With
    `leave`, all of them leave. Returns how many they are; prefix[k] and shards[k] are the key's."""
    fixed, links, row_at, _, words, meta, spans, heap, slots, state = tables_at(place)
    filled = np.int64(0)
    for k in range(keys.size):
        key = keys[k]
        starts[k], prefix[k], shards[k] = filled, words[key], meta[key, SHARD]
        row = np.int64(meta[key, HEAD])
        while row >= 0:
            behind = np.int64(links[row, SAME_NEXT])
            order[filled] = row_at[row] - origin
            filled += 1
            if leave:
                _unlink(row, links, row_at, state)
            else:
                links[row, MET] = min(np.int64(links[row, MET]) + counts[k], 1 << 30)
            row = behind
        if leave:
            _forget_key(key, fixed, words, meta, spans, heap, slots, state)
    starts[keys.size] = filled
    return filled


@njit(cache=True, nogil=True)
def move(place, new_place):  # type: ignore[no-untyped-def]
    """Copies everyone, the oldest first, into other tables, which are empty; the keys' bytes stay where they are."""
    fixed, links, row_at, stamps, words, meta, spans, _, _, state = tables_at(place)
    (
        _, new_links, new_row_at, new_stamps, new_words, new_meta, new_spans, _, new_slots, new_state,
    ) = tables_at(new_place)  # fmt: skip
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
            hashed = hash_of(old_key, fixed, words, spans)
            slot = home(hashed, new_slots)
            while new_slots[slot] >= 0:
                slot = next_slot(slot, new_slots)
            new_slots[slot] = slot_of(key, hashed)
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
def oldest(place, stamp_max, out):  # type: ignore[no-untyped-def]
    """The oldest rows whose stamp is at most stamp_max, as many as `out` holds; returns how many."""
    _, links, _, stamps, _, _, _, _, _, state = tables_at(place)
    count = 0
    row = state[OLDEST]
    while row >= 0 and count < out.size and stamps[row] <= stamp_max:
        out[count] = row
        count += 1
        row = np.int64(links[row, NEXT])
    return count


@njit(cache=True, nogil=True)
def newest(place, out):  # type: ignore[no-untyped-def]
    """The newest rows, as many as `out` holds; returns how many."""
    _, links, _, _, _, _, _, _, _, state = tables_at(place)
    count = 0
    row = state[NEWEST]
    while row >= 0 and count < out.size:
        out[count] = row
        count += 1
        row = np.int64(links[row, PREV])
    return count


@njit(cache=True, nogil=True)
def remove_rows(place, rows):  # type: ignore[no-untyped-def]
    """These rows leave, and keys that nobody else waits for."""
    fixed, links, row_at, _, words, meta, spans, heap, slots, state = tables_at(place)
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
def key_at(place, position):  # type: ignore[no-untyped-def]
    """The key of the row that has `position` others before it in Q. A marker stays near it, so that the walk is
    short where positions change little."""
    _, links, _, _, _, _, _, _, _, state = tables_at(place)
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
def key_sizes(place, keys, sizes):  # type: ignore[no-untyped-def]
    spans = tables_at(place).spans
    for k in range(keys.size):
        sizes[k] = spans[keys[k], SIZE]


@njit(cache=True, nogil=True)
def key_bytes(place, keys, offsets, target):  # type: ignore[no-untyped-def]
    tables = tables_at(place)
    spans = tables.spans
    for k in range(keys.size):
        copy_bytes(target + offsets[k], tables.heap + spans[keys[k], START], spans[keys[k], SIZE])


@njit(cache=True, nogil=True)
def compact_heap(place, target):  # type: ignore[no-untyped-def]
    """Moves the bytes of the keys that are left to `target`, one after the other."""
    _, _, _, _, _, _, spans, heap, slots, state = tables_at(place)
    used = np.int64(0)
    for i in range(slots.size):
        if slots[i] >= 0:
            key = slots[i] & KEY_MASK
            copy_bytes(target + used, heap + spans[key, START], spans[key, SIZE])
            spans[key, START] = used
            used += spans[key, SIZE]
    state[HEAP_USED] = used


@njit(cache=True, nogil=True)
def renumber(place, first, stop, kept):  # type: ignore[no-untyped-def]
    """The rows of the store first..stop-1 that are still waited for, oldest first, go to `kept`, and are numbered
    from `first` on; the rows behind them move up. Q is in the store's order. Returns how many were kept."""
    _, links, row_at, _, _, _, _, _, _, state = tables_at(place)
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
