"""Kernels of `rows`: one column of many rows at a time, between Arrow buffers and row addresses.

`variable_at` is where a row's ends stand, `variable` how many there are. An end takes one byte, or
`end_bytes` where bit 0 of the row says that it is wide.

Address 0 stands for "no master row": every column of it decodes to null.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._memory import (
    copy_bytes,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    store_u8,
    store_u16,
    store_u32,
    store_u64,
)


@njit(cache=True, inline="always")
def _end_width(row, end_bytes):  # type: ignore[no-untyped-def]
    return np.int64(end_bytes) if load_u8(row) & 1 else np.int64(1)


@njit(cache=True, inline="always")
def _load_end(at, width):  # type: ignore[no-untyped-def]
    if width == 1:
        return np.int64(load_u8(at))
    return np.int64(load_u16(at)) if width == 2 else np.int64(load_u32(at))


@njit(cache=True, nogil=True)
def clear(rows, bitmap_bytes, wide):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        for j in range(bitmap_bytes):
            store_u8(rows[i] + j, np.uint8(0))
        if wide[i]:
            store_u8(rows[i], np.uint8(1))


@njit(cache=True, nogil=True)
def set_nulls(rows, byte, bit, valid):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        if not valid[i]:
            at = rows[i] + byte
            store_u8(at, np.uint8(load_u8(at) | (1 << bit)))


@njit(cache=True, nogil=True)
def put_fixed(rows, offset, width, source, stride, valid):  # type: ignore[no-untyped-def]
    """source + i * stride holds the value of row i; the low `width` bytes are stored."""
    for i in range(rows.size):
        at = rows[i] + offset
        value = source + i * stride
        if not valid[i]:
            for j in range(width):
                store_u8(at + j, np.uint8(0))
        elif width == 8:
            store_u64(at, load_u64(value))
        elif width == 4:
            store_u32(at, load_u32(value))
        elif width == 16:
            store_u64(at, load_u64(value))
            store_u64(at + 8, load_u64(value + 8))
        elif width == 2:
            store_u16(at, load_u16(value))
        else:
            store_u8(at, load_u8(value))


@njit(cache=True, nogil=True)
def put_variable(  # type: ignore[no-untyped-def]
    rows, variable_at, variable, index, end_bytes, ends, offsets, data, valid
):
    """Appends the bytes of the variable column `index` behind `ends[i]` others, and moves ends[i]."""
    for i in range(rows.size):
        width = _end_width(rows[i], end_bytes)
        if valid[i]:
            size = offsets[i + 1] - offsets[i]
            copy_bytes(rows[i] + variable_at + variable * width + ends[i], data + offsets[i], size)
            ends[i] += size
        at = rows[i] + variable_at + index * width
        if width == 1:
            store_u8(at, np.uint8(ends[i]))
        elif width == 2:
            store_u16(at, np.uint16(ends[i]))
        else:
            store_u32(at, np.uint32(ends[i]))


@njit(cache=True, nogil=True)
def any_null(rows, bitmap_bytes):  # type: ignore[no-untyped-def]
    seen = np.uint8(0)
    for i in range(rows.size):
        if rows[i] == 0:
            return True
        seen |= load_u8(rows[i]) & np.uint8(0xFE)
        for j in range(1, bitmap_bytes):
            seen |= load_u8(rows[i] + j)
    return seen != 0


@njit(cache=True, nogil=True)
def get_valid(rows, byte, bit, out):  # type: ignore[no-untyped-def]
    """out[i] = 1 where the value is not null; returns the number of nulls."""
    nulls = 0
    for i in range(rows.size):
        if rows[i] == 0 or (load_u8(rows[i] + byte) >> bit) & 1:
            out[i] = 0
            nulls += 1
        else:
            out[i] = 1
    return nulls


@njit(cache=True, nogil=True)
def get_fixed(rows, offset, width, out):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        target = out + i * width
        at = rows[i] + offset
        if rows[i] == 0:
            for j in range(width):
                store_u8(target + j, np.uint8(0))
        elif width == 8:
            store_u64(target, load_u64(at))
        elif width == 4:
            store_u32(target, load_u32(at))
        elif width == 16:
            store_u64(target, load_u64(at))
            store_u64(target + 8, load_u64(at + 8))
        elif width == 2:
            store_u16(target, load_u16(at))
        else:
            store_u8(target, load_u8(at))


@njit(cache=True, nogil=True)
def widen_decimals(words, out):  # type: ignore[no-untyped-def]
    """64-bit numbers as 128-bit ones: the sign fills the upper word."""
    for i in range(words.size):
        out[2 * i] = words[i]
        out[2 * i + 1] = words[i] >> 63


@njit(cache=True, inline="always")
def _start(row, variable_at, index, width):  # type: ignore[no-untyped-def]
    """Where a value begins: where the one before it ends."""
    return _load_end(row + variable_at + (index - 1) * width, width) if index > 0 else np.int64(0)


@njit(cache=True, nogil=True)
def get_offsets(rows, variable_at, index, end_bytes, offsets):  # type: ignore[no-untyped-def]
    """Arrow offsets of a variable column; returns the total size, which may exceed 32 bits."""
    total = np.int64(0)
    offsets[0] = 0
    for i in range(rows.size):
        if rows[i] != 0:
            width = _end_width(rows[i], end_bytes)
            end = _load_end(rows[i] + variable_at + index * width, width)
            total += end - _start(rows[i], variable_at, index, width)
        offsets[i + 1] = total
    return total


@njit(cache=True, nogil=True)
def get_variable(rows, variable_at, variable, index, end_bytes, offsets, out):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        if rows[i] != 0:
            width = _end_width(rows[i], end_bytes)
            start = rows[i] + variable_at + variable * width + _start(rows[i], variable_at, index, width)
            copy_bytes(out + offsets[i], start, offsets[i + 1] - offsets[i])


@njit(cache=True)
def row_bytes(row, variable_at, variable, end_bytes):  # type: ignore[no-untyped-def]
    """The size of one row; rows say their own size, so that rows of one key can stand side by side."""
    if variable == 0:
        return variable_at
    width = _end_width(row, end_bytes)
    return variable_at + variable * width + _load_end(row + variable_at + (variable - 1) * width, width)


@njit(cache=True)
def row_fits(row, room, variable_at, variable, end_bytes):  # type: ignore[no-untyped-def]
    """Do the row's own sizes stay inside `room` bytes?"""
    if variable_at + variable > room:
        return False
    width = _end_width(row, end_bytes)
    if variable_at + variable * width > room:
        return False
    before = np.int64(0)
    for index in range(variable):
        end = _load_end(row + variable_at + index * width, width)
        if end < before:
            return False
        before = end
    return variable_at + variable * width + before <= room
