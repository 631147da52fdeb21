"""Where the queue room has everything: H_S, a hash table of the distinct keys that wait, each with a list of its rows;
and Q, a list of all rows in the order of their arrival. Both lists are doubly linked, so any row can leave at any time.

    slots -> keys -> rows of the key (SAME_NEXT, SAME_PREV)
                     rows in order of arrival (NEXT, PREV)

A slot holds a key's number and 31 bits of its hash, so that a search for a key that nobody waits for, as most of R's
are, touches nothing but slots.

Rows and keys are numbers into arrays; -1 ends a list. Numbers that became free are kept in a list of their own, and
used before new ones: memory that was never needed is never touched.

Kernels take all of it as one array, the `place`: where each table is, and its size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, njit

from semistream.core._hash_kernels import mix64
from semistream.core._key_kernels import compare_bytes
from semistream.core._memory import multiply_high, pointer_to

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
# Fields of `place`: addresses, and how many rows (and keys) and slots there are; is a key a single word?
IS_FIXED, ROWS_MAX, SLOT_COUNT = range(3)
LINKS_AT, ROW_AT, STAMPS_AT, WORDS_AT, META_AT, SPANS_AT, HEAP_AT, SLOTS_AT, STATE_AT = range(3, 12)

END = -1
KEY_MASK = (1 << 32) - 1
TAG_MASK = np.uint64((1 << 31) - 1)


class Tables(NamedTuple):
    """What a place says, as kernels use it: `links`, `row_at` and `stamps` by row; `words`, `meta` and `spans` by key;
    `heap` is the address of the keys' bytes."""

    fixed: Any
    links: Any
    row_at: Any
    stamps: Any
    words: Any
    meta: Any
    spans: Any
    heap: Any
    slots: Any
    state: Any


@njit(cache=True)
def tables_at(place):  # type: ignore[no-untyped-def]
    rows = place[ROWS_MAX]
    return Tables(
        place[IS_FIXED] != 0,
        carray(pointer_to(place[LINKS_AT]), (rows, LINKS), np.int32),
        carray(pointer_to(place[ROW_AT]), (rows,), np.int64),
        carray(pointer_to(place[STAMPS_AT]), (rows,), np.int64),
        carray(pointer_to(place[WORDS_AT]), (rows,), np.uint64),
        carray(pointer_to(place[META_AT]), (rows, METAS), np.int32),
        carray(pointer_to(place[SPANS_AT]), (rows, SPANS), np.int64),
        place[HEAP_AT],
        carray(pointer_to(place[SLOTS_AT]), (place[SLOT_COUNT],), np.int64),
        carray(pointer_to(place[STATE_AT]), (STATES,), np.int64),
    )


@njit(cache=True, nogil=True)
def clear(slots, state):  # type: ignore[no-untyped-def]
    slots[:] = END
    state[:] = 0
    state[OLDEST] = state[NEWEST] = state[MARKER] = state[FREE_ROW] = state[FREE_KEY] = END


@njit(cache=True, inline="always")
def hash_of(key, fixed, words, spans):  # type: ignore[no-untyped-def]
    return mix64(words[key]) if fixed else np.uint64(spans[key, HASH])


@njit(cache=True)
def find(word, hashed, at, size, fixed, words, spans, heap, slots):  # type: ignore[no-untyped-def]
    """(the key's number or -1, the slot where the search ended)"""
    slot = home(hashed, slots)
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
        slot = next_slot(slot, slots)


@njit(cache=True, inline="always")
def home(hashed, slots):  # type: ignore[no-untyped-def]
    return np.int64(multiply_high(hashed, np.uint64(slots.size)))


@njit(cache=True, inline="always")
def next_slot(slot, slots):  # type: ignore[no-untyped-def]
    return slot + 1 if slot + 1 < slots.size else np.int64(0)


@njit(cache=True, inline="always")
def distance(slot, behind, slots):  # type: ignore[no-untyped-def]
    return behind - slot if behind >= slot else behind - slot + slots.size


@njit(cache=True, inline="always")
def slot_of(key, hashed):  # type: ignore[no-untyped-def]
    return np.int64(hashed & TAG_MASK) << 32 | np.int64(key)
