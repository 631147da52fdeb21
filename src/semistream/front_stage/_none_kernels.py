"""The kernel of the front stage that knows nothing."""

from __future__ import annotations

from numba import njit

from semistream.core.contracts import MISS, NULL_KEY


@njit(cache=True, nogil=True)
def miss_all(valid, start, misses_max, out):  # type: ignore[no-untyped-def]
    """out[i - start] = MISS, or NULL_KEY for a row without a key; ends with the rows, or after misses_max misses.
    Returns (rows answered, null keys)."""
    i = start
    misses = 0
    while i < valid.size and misses < misses_max:
        out[i - start] = MISS if valid[i] else NULL_KEY
        misses += valid[i]
        i += 1
    return i - start, i - start - misses
