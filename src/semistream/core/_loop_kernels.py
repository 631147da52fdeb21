"""Kernels of the loop."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._memory import copy_bytes
from semistream.core._row_kernels import row_bytes


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
        matches = 0
        if every_match and count > 0:
            matches = count
        elif leaving[j]:
            total = count + before[j]
            if (once and total > 0) or (absent and total == 0):
                matches = 1
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


@njit(cache=True, nogil=True)
def count_leaving(starts, first_key, counts, before, leaving):  # type: ignore[no-untyped-def]
    """(stream rows that leave and had a match, those that had none)"""
    matched = unmatched = 0
    for j in range(counts.size):
        if leaving[j]:
            waiting = starts[first_key + j + 1] - starts[first_key + j]
            if counts[j] + before[j] > 0:
                matched += waiting
            else:
                unmatched += waiting
    return matched, unmatched


@njit(cache=True, nogil=True)
def copy_rows(rows, variable_at, variable, end_bytes, target, room, copies):  # type: ignore[no-untyped-def]
    """Copies rows one after the other to `target`; copies[i] is where row i went (0 stays 0). Returns the bytes
    taken, or -1 if they are more than `room`."""
    used = np.int64(0)
    for i in range(rows.size):
        if rows[i] == 0:
            copies[i] = 0
            continue
        size = row_bytes(rows[i], variable_at, variable, end_bytes)
        if used + size > room:
            return np.int64(-1)
        copy_bytes(target + used, rows[i], size)
        copies[i] = target + used
        used += size
    return used


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
