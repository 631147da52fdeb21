"""Kernels of the wait buffer's slots: a list of the keys that wait for each partition, and how many rows they have.

    slot -> its keys (AFTER, BEFORE) -> rows of the key, as the queue room has them

Keys are the queue room's numbers; -1 ends a list, and is the SLOT of a key that is in none.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.waiting_room._queue_tables import COUNT, KEY, NEWEST, PREV

# Columns of `places`, one line a key
SLOT, AFTER, BEFORE = range(3)
PLACES = 3
# Columns of `slots`, one line a slot
FIRST, ROWS = range(2)
SLOTS = 2
END = -1
_NOTED = -2


@njit(cache=True, nogil=True)
def newcomers(rows, links, state, places, keys):  # type: ignore[no-untyped-def]
    """The keys without a slot among those of the `rows` newest rows, each once; returns how many."""
    found = 0
    row = state[NEWEST]
    for _ in range(rows):
        key = np.int64(links[row, KEY])
        if places[key, SLOT] == END:
            places[key, SLOT] = _NOTED
            keys[found] = key
            found += 1
        row = np.int64(links[row, PREV])
    return found


@njit(cache=True, nogil=True)
def enter(keys, slot_of, rows, links, state, places, slots):  # type: ignore[no-untyped-def]
    """Gives each of the keys its slot, and counts the `rows` newest rows."""
    for i in range(keys.size):
        key, slot = keys[i], slot_of[i]
        behind = slots[slot, FIRST]
        places[key, SLOT], places[key, AFTER], places[key, BEFORE] = slot, behind, END
        if behind >= 0:
            places[behind, BEFORE] = key
        slots[slot, FIRST] = key
    row = state[NEWEST]
    for _ in range(rows):
        slots[places[links[row, KEY], SLOT], ROWS] += 1
        row = np.int64(links[row, PREV])


@njit(cache=True, nogil=True)
def count_out(rows, links, places, slots):  # type: ignore[no-untyped-def]
    """These rows are about to leave."""
    for i in range(rows.size):
        slots[places[links[rows[i], KEY], SLOT], ROWS] -= 1


@njit(cache=True, nogil=True)
def leave(keys, meta, places, slots):  # type: ignore[no-untyped-def]
    """Takes keys out of their slots, with the rows that still wait for them."""
    for i in range(keys.size):
        key = keys[i]
        slot = places[key, SLOT]
        slots[slot, ROWS] -= meta[key, COUNT]
        behind, before = places[key, AFTER], places[key, BEFORE]
        if before >= 0:
            places[before, AFTER] = behind
        else:
            slots[slot, FIRST] = behind
        if behind >= 0:
            places[behind, BEFORE] = before
        places[key, SLOT] = END


@njit(cache=True, nogil=True)
def keys_of(slot, places, slots, keys):  # type: ignore[no-untyped-def]
    """The keys of a slot, as many as `keys` holds; returns how many."""
    found = 0
    key = np.int64(slots[slot, FIRST])
    while key >= 0 and found < keys.size:
        keys[found] = key
        found += 1
        key = np.int64(places[key, AFTER])
    return found
