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


@njit(cache=True, inline="always")
def _start(row, variable_at, index, width):  # type: ignore[no-untyped-def]
    """Where a value begins: where the one before it ends."""
    return _load_end(row + variable_at + (index - 1) * width, width) if index > 0 else np.int64(0)


# Rows are decoded in blocks that fit the processor's nearest cache: the first column of a block brings its
# rows from memory, and the others find them there.
_BLOCK_ROWS = 128

# A column to decode: where it stands in the row (or which variable column it is), its width there (0:
# variable), its width in Arrow, and where its values (or 32-bit offsets) go.
AT, WIDTH, ARROW_WIDTH, TARGET = range(4)


@njit(cache=True, nogil=True)
def get_values_and_offsets(rows, bitmap_bytes, variable_at, end_bytes, columns, totals):  # type: ignore[no-untyped-def]
    """Fixed-width values, and the offsets of variable ones, whose sizes add up in `totals`. Says whether
    there is any null."""
    seen = np.uint8(0)
    missing = False
    for block in range(0, rows.size, _BLOCK_ROWS):
        stop = min(block + _BLOCK_ROWS, rows.size)
        for i in range(block, stop):
            if rows[i] == 0:
                missing = True
            else:
                seen |= load_u8(rows[i]) & np.uint8(0xFE)
                for j in range(1, bitmap_bytes):
                    seen |= load_u8(rows[i] + j)
        for c in range(columns.shape[0]):
            at, width = columns[c, AT], columns[c, WIDTH]
            arrow_width, target = columns[c, ARROW_WIDTH], columns[c, TARGET]
            if width == 0:
                total = totals[c]
                for i in range(block, stop):
                    if rows[i] != 0:
                        end_width = _end_width(rows[i], end_bytes)
                        end = _load_end(rows[i] + variable_at + at * end_width, end_width)
                        total += end - _start(rows[i], variable_at, at, end_width)
                    store_u32(target + 4 * (i + 1), np.uint32(total))
                totals[c] = total
            else:
                for i in range(block, stop):
                    _get_fixed(rows[i], rows[i] + at, width, arrow_width, target + i * arrow_width)
    return missing or seen != 0


@njit(cache=True, inline="always")
def _get_fixed(row, at, width, arrow_width, target):  # type: ignore[no-untyped-def]
    if row == 0:
        for j in range(arrow_width):
            store_u8(target + j, np.uint8(0))
    elif width == 8:
        word = load_u64(at)
        store_u64(target, word)
        if arrow_width == 16:
            # A decimal of at most 18 digits: its sign fills Arrow's upper word.
            store_u64(target + 8, np.uint64(np.int64(word) >> 63))
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
def get_variable(rows, variable_at, variable, end_bytes, columns, data):  # type: ignore[no-untyped-def]
    """The bytes of the variable columns, to data[c], once `get_values_and_offsets` has set the offsets."""
    for block in range(0, rows.size, _BLOCK_ROWS):
        stop = min(block + _BLOCK_ROWS, rows.size)
        for c in range(columns.shape[0]):
            if columns[c, WIDTH] == 0:
                at, offsets = columns[c, AT], columns[c, TARGET]
                for i in range(block, stop):
                    if rows[i] != 0:
                        width = _end_width(rows[i], end_bytes)
                        first = rows[i] + variable_at + variable * width
                        start = np.int64(load_u32(offsets + 4 * i))
                        size = np.int64(load_u32(offsets + 4 * i + 4)) - start
                        copy_bytes(data[c] + start, first + _start(rows[i], variable_at, at, width), size)


@njit(cache=True)
def row_bytes(row, variable_at, variable, end_bytes):  # type: ignore[no-untyped-def]
    """The size of one row; rows say their own size, so that rows of one key can stand side by side."""
    if variable == 0:
        return variable_at
    width = _end_width(row, end_bytes)
    return variable_at + variable * width + _load_end(row + variable_at + (variable - 1) * width, width)


@njit(cache=True, nogil=True)
def row_sizes(rows, variable_at, variable, end_bytes, sizes):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        sizes[i] = row_bytes(rows[i], variable_at, variable, end_bytes)


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
