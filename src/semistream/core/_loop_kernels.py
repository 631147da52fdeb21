"""Kernels of the loop."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._memory import copy_bytes
from semistream.core._row_kernels import row_bytes


@njit(cache=True, inline="always")
def _pairs_each(count, before, leaving, every_match, once, absent):  # type: ignore[no-untyped-def]
    """Output rows of one who waits: one for each master row found now, or one alone if he is leaving."""
    if every_match and count > 0:
        return count
    had = count + before
    return np.int64(leaving and ((once and had > 0) or (absent and had == 0)))


@njit(cache=True, nogil=True)
def pairs_of_matches(  # type: ignore[no-untyped-def]
    order, starts, first_key, counts, row_at, before, leaving, variable_at, variable, end_bytes,
    every_match, once, absent, pair_bytes, limit_bytes, state, index, rows,
):  # fmt: skip
    """Fills (index, rows) with output pairs from where state = (key, its first match, waiting row, match)
    stands. A key that is leaving had before[j] rows earlier. A pair counts the pair_bytes of its stream row and
    its master row's size against limit_bytes, which only a single pair may exceed. Returns the number of pairs;
    the work is done when state[0] = counts.size.
    """
    filled = 0
    left = limit_bytes
    j, base, i, m = state[0], state[1], state[2], state[3]
    while j < counts.size:
        key = first_key + j
        waiting = starts[key + 1] - starts[key]
        count = counts[j]
        matches = _pairs_each(count, before[j], leaving[j], every_match, once, absent)
        if matches:
            while i < waiting:
                while m < matches:
                    at = row_at[base + m] if every_match and count > 0 else 0
                    row = order[starts[key] + i]
                    size = pair_bytes[row] + (row_bytes(at, variable_at, variable, end_bytes) if at else 0)
                    if filled == index.size or (filled > 0 and left < size):
                        state[0], state[1], state[2], state[3] = j, base, i, m
                        return filled
                    index[filled] = row
                    rows[filled] = at
                    filled += 1
                    left -= size
                    m += 1
                m = 0
                i += 1
        base += count
        j += 1
        i = m = 0
    state[0], state[1], state[2], state[3] = j, base, i, m
    return filled


KEPT, FULL, MANY = range(3)


@njit(cache=True, nogil=True)
def keep_matches(  # type: ignore[no-untyped-def]
    order, starts, first_key, counts, row_at, before, leaving, variable_at, variable, end_bytes,
    every_match, once, absent, pair_bytes, pairs_max, bytes_max, memory, state, index, rows,
):  # fmt: skip
    """Puts all pairs of some matches behind those that are kept, with copies of their master rows in `memory` (0: none
    are needed). None of them if there is no room (FULL), or if they are more than pairs_max (MANY); a key that is
    leaving had before[j] rows earlier. state = (pairs kept, bytes of their master rows, pair_bytes of their stream
    rows), of which neither may exceed bytes_max.

    Returns (KEPT, FULL or MANY; stream rows that leave and had a match, those that leave and had none)."""
    matched = unmatched = total = np.int64(0)
    for j in range(counts.size):
        key = first_key + j
        waiting = starts[key + 1] - starts[key]
        had = counts[j] + before[j]
        if leaving[j]:
            if had > 0:
                matched += waiting
            else:
                unmatched += waiting
        total += waiting * _pairs_each(counts[j], before[j], leaving[j], every_match, once, absent)
    if total > pairs_max:
        return MANY, matched, unmatched
    filled, used, weight = state[0], state[1], state[2]
    if filled + total > index.size:
        return FULL, matched, unmatched
    base = np.int64(0)
    for j in range(counts.size):
        count, key = counts[j], first_key + j
        pairs = _pairs_each(count, before[j], leaving[j], every_match, once, absent)
        for i in range(starts[key], starts[key + 1]):
            for m in range(pairs):
                at = row_at[base + m] if every_match and count > 0 and memory else np.int64(0)
                size = row_bytes(at, variable_at, variable, end_bytes) if at else np.int64(0)
                weight += pair_bytes[order[i]]
                if used + size > bytes_max or weight > bytes_max:
                    return FULL, matched, unmatched
                index[filled], rows[filled] = order[i], 0
                if at:
                    copy_bytes(memory + used, at, size)
                    rows[filled] = memory + used
                used += size
                filled += 1
        base += count
    state[0], state[1], state[2] = filled, used, weight
    return KEPT, matched, unmatched


@njit(cache=True, nogil=True)
def keep_pairs(  # type: ignore[no-untyped-def]
    chosen, row_at, variable_at, variable, end_bytes, pair_bytes, bytes_max, memory, state, index, rows
):
    """The same for pairs: stream row chosen[i] with the master row at row_at[i] (0: without one). Are they kept?"""
    filled, used, weight = state[0], state[1], state[2]
    if filled + chosen.size > index.size:
        return False
    for i in range(chosen.size):
        at = row_at[i] if memory else np.int64(0)
        size = row_bytes(at, variable_at, variable, end_bytes) if at else np.int64(0)
        weight += pair_bytes[chosen[i]]
        if used + size > bytes_max or weight > bytes_max:
            return False
        index[filled], rows[filled] = chosen[i], 0
        if at:
            copy_bytes(memory + used, at, size)
            rows[filled] = memory + used
        used += size
        filled += 1
    state[0], state[1], state[2] = filled, used, weight
    return True


@njit(cache=True, nogil=True)
def select_misses(answers, first, out):  # type: ignore[no-untyped-def]
    """The rows whose answer is 0, in order, counted from `first`; returns how many."""
    count = 0
    for i in range(answers.size):
        if answers[i] == 0:
            out[count] = first + i
            count += 1
    return count


@njit(cache=True, nogil=True)
def is_identity(index):  # type: ignore[no-untyped-def]
    for i in range(index.size):  # noqa: SIM110  (a kernel)
        if index[i] != i:
            return False
    return True
