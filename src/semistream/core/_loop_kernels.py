"""Kernels of the loop."""

from __future__ import annotations

from numba import njit

from semistream.core._row_kernels import row_bytes


@njit(cache=True, nogil=True)
def pairs_of_matches(  # type: ignore[no-untyped-def]
    order, starts, first_key, counts, row_at, matched_before, unfinished, variable_at, variable, end_bytes,
    every_match, once, absent, pair_bytes, limit_bytes, state, index, rows,
):  # fmt: skip
    """Fills (index, rows) with output pairs from where state = (key, its first match, waiting row, match)
    stands; matched_before counts the first key's rows from earlier windows. A pair counts the pair_bytes of
    its stream row and its master row's size against limit_bytes, which only a single pair may exceed. Returns
    the number of pairs; the work is done when state[0] = counts.size.
    """
    filled = 0
    left = limit_bytes
    j, base, i, m = state[0], state[1], state[2], state[3]
    while j < counts.size:
        key = first_key + j
        waiting = starts[key + 1] - starts[key]
        count = counts[j]
        complete = not (unfinished and j == counts.size - 1)
        total = count + (matched_before if j == 0 else 0)
        matches = 0
        if every_match and count > 0:
            matches = count
        elif complete and ((once and total > 0) or (absent and total == 0)):
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
def count_served(starts, first_key, counts, matched_before, unfinished):  # type: ignore[no-untyped-def]
    """(stream rows whose key is complete and has rows, those whose key has none)"""
    matched = unmatched = 0
    for j in range(counts.size):
        if unfinished and j == counts.size - 1:
            continue
        waiting = starts[first_key + j + 1] - starts[first_key + j]
        if counts[j] + (matched_before if j == 0 else 0) > 0:
            matched += waiting
        else:
            unmatched += waiting
    return matched, unmatched


@njit(cache=True, nogil=True)
def select_misses(answers, out):  # type: ignore[no-untyped-def]
    """The rows whose answer is 0, in order; returns how many."""
    count = 0
    for i in range(answers.size):
        if answers[i] == 0:
            out[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True)
def is_identity(index):  # type: ignore[no-untyped-def]
    for i in range(index.size):  # noqa: SIM110  (a kernel)
        if index[i] != i:
            return False
    return True
