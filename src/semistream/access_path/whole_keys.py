"""What is told of keys that are looked up: who waits for one leaves when it has met all rows that R has of it.

A window of R brings most keys whole. Of one whose rows lie in several windows, those who wait are shown the rows of each
(`partly`), and leave behind the last (`last_of`).
"""

from __future__ import annotations

import numpy as np

from semistream.access_path.segments import all_but
from semistream.core.contracts import I64, Matches
from semistream.core.keys import all_true
from semistream.waiting_room.queue_room import Found, QueueRoom

_NOTHING = np.zeros(0, np.int64)


def served(room: QueueRoom, found: Found, parted: list[int]) -> Matches:
    """All rows of the keys that are not parted; everyone who waits for them leaves."""
    keys, counts, row_at = found.keys, found.counts, found.row_at
    if parted:
        keys, counts, row_at = _chosen(found, all_but(keys.size, parted))
    everyone = all_true(keys.size)
    return Matches(
        waiting=room.waiting(keys, counts, leave=True),
        first_key=0,
        counts=counts,
        row_at=row_at,
        before=np.zeros(keys.size, np.int64),
        whole=everyone,
        leaving=everyone,
    )


def partly(room: QueueRoom, found: Found, place: int, *, before: int) -> Matches:
    """Some rows of one key, after `before` others; those who wait for it stay."""
    chosen = np.zeros(found.keys.size, np.bool_)
    chosen[place] = True
    keys, counts, row_at = _chosen(found, chosen)
    nobody = np.zeros(1, np.bool_)
    return Matches(
        waiting=room.waiting(keys, counts, leave=False),
        first_key=0,
        counts=counts,
        row_at=row_at,
        before=np.array([before], np.int64),
        whole=nobody,
        leaving=nobody,
    )


def last_of(room: QueueRoom, keys: I64, before: I64) -> Matches:
    """There is nothing more of these keys; R does not have those that met nothing before."""
    nothing = np.zeros(keys.size, np.int64)
    return Matches(
        waiting=room.waiting(keys, nothing, leave=True),
        first_key=0,
        counts=nothing,
        row_at=_NOTHING,
        before=before,
        whole=before == 0,
        leaving=all_true(keys.size),
    )


def _chosen(found: Found, chosen: np.ndarray) -> tuple[I64, I64, I64]:
    return found.keys[chosen], found.counts[chosen], found.row_at[np.repeat(chosen, found.counts)]
