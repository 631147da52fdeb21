"""Kernels of an output that keeps the stream's order."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def leaving_rows(order, starts, first_key, leaving, rows):  # type: ignore[no-untyped-def]
    """The rows that wait for the keys first_key, first_key + 1, ... that are leaving; returns how many."""
    count = 0
    for j in range(leaving.size):
        if leaving[j]:
            for i in range(starts[first_key + j], starts[first_key + j + 1]):
                rows[count] = order[i]
                count += 1
    return count


@njit(cache=True, nogil=True)
def first_other(flags, at, stop, value):  # type: ignore[no-untyped-def]
    """The first place from `at` on whose flags are not `value`; `stop` if there is none before it."""
    while at < stop and flags[at] == value:
        at += 1
    return at
