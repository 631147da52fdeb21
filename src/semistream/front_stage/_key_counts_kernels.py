"""Kernels of `key_counts`: an open-addressing table of 8 bytes of hash, 8 of count per slot."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._memory import multiply_high

_EMPTY = np.uint64(0)


@njit(cache=True)
def _slot(names, name):  # type: ignore[no-untyped-def]
    """Where the name is, or where it would go."""
    at = np.int64(multiply_high(name, np.uint64(names.size)))
    while names[at] != _EMPTY and names[at] != name:
        at += 1
        if at == names.size:
            at = np.int64(0)
    return at


@njit(cache=True)
def _name(hashed):  # type: ignore[no-untyped-def]
    return hashed if hashed != _EMPTY else np.uint64(1)


@njit(cache=True, nogil=True)
def add(names, counts, held, held_max, renew, hashes, increments, totals):  # type: ignore[no-untyped-def]
    """totals[i] = what was counted for key i, increments[i] included. When held_max keys are there, a new one is not
    counted (totals[i] = increments[i]), or, with `renew`, everything before it is forgotten. Returns the keys held."""
    for i in range(hashes.size):
        name = _name(hashes[i])
        at = _slot(names, name)
        if names[at] == _EMPTY:
            if held == held_max:
                if not renew:
                    totals[i] = increments[i]
                    continue
                names[:] = _EMPTY
                counts[:] = 0
                held = 0
                at = _slot(names, name)
            names[at] = name
            held += 1
        counts[at] += increments[i]
        totals[i] = counts[at]
    return held


@njit(cache=True, nogil=True)
def look_up(names, counts, hashes, totals):  # type: ignore[no-untyped-def]
    """totals[i] = what was counted for key i, or -1."""
    for i in range(hashes.size):
        at = _slot(names, _name(hashes[i]))
        totals[i] = counts[at] if names[at] != _EMPTY else -1
