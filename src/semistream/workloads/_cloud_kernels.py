"""Fixed-width decimal numbers, as Fortran writes them, to and from integers."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from semistream.workloads._row_kernels import Bytes
from semistream.workloads.zipf import Int64s

Int32s = NDArray[np.int32]

# What is wrong with a field.
SOUND, NOT_A_NUMBER, OUT_OF_RANGE = 0, 1, 2
_BLANK, _MINUS, _ZERO = 32, 45, 48


@njit(cache=True, nogil=True)
def parse_field(
    records: Bytes,
    start: int,
    width: int,
    low: int,
    high: int,
    missing: int,
    out: Int32s,
    valid: NDArray[np.bool_],
) -> tuple[int, int]:
    """Reads one field of all records (a matrix of characters): blanks, a minus if any, digits.

    Returns the first record that is wrong, and why; (-1, SOUND) if none is. Values must lie in
    low .. high or be `missing`, which clears `valid`.
    """
    for r in range(records.shape[0]):
        value, digits, negative = np.int64(0), 0, False
        for c in range(start, start + width):
            character = records[r, c]
            digit = np.int64(character) - _ZERO
            if 0 <= digit <= 9:
                value = value * 10 + digit
                digits += 1
            elif character == _MINUS and not negative and digits == 0:
                negative = True
            elif not (character == _BLANK and not negative and digits == 0):
                return r, NOT_A_NUMBER
        if digits == 0:
            return r, NOT_A_NUMBER
        if negative:
            value = -value
        valid[r] = value != missing
        if value != missing and not low <= value <= high:
            return r, OUT_OF_RANGE
        out[r] = value
    return -1, SOUND


@njit(cache=True, nogil=True)
def format_field(values: Int64s, start: int, width: int, records: Bytes) -> int:
    """Writes one field of all records, blanks in front; returns the first value that does not fit, or -1."""
    for r in range(values.size):
        rest = abs(values[r])
        at = start + width - 1
        while True:
            if at < start:
                return r
            records[r, at] = _ZERO + rest % 10
            rest //= 10
            at -= 1
            if rest == 0:
                break
        if values[r] < 0:
            if at < start:
                return r
            records[r, at] = _MINUS
            at -= 1
        while at >= start:
            records[r, at] = _BLANK
            at -= 1
    return -1
