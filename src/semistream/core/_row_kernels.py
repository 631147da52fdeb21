"""Kernels of `rows`: one column of many rows at a time, between Arrow buffers and row addresses.

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
def _load_end(address, end_bytes):  # type: ignore[no-untyped-def]
    return np.int64(load_u16(address)) if end_bytes == 2 else np.int64(load_u32(address))


@njit(cache=True, nogil=True)
def clear(rows, header_bytes):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        for j in range(header_bytes):
            store_u8(rows[i] + j, np.uint8(0))


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
def put_variable(rows, end_at, end_bytes, body_at, ends, offsets, data, valid):  # type: ignore[no-untyped-def]
    """Appends each row's bytes behind `ends[i]` bytes of its variable section and moves ends[i]."""
    for i in range(rows.size):
        if valid[i]:
            size = offsets[i + 1] - offsets[i]
            copy_bytes(rows[i] + body_at + ends[i], data + offsets[i], size)
            ends[i] += size
        if end_bytes == 2:
            store_u16(rows[i] + end_at, np.uint16(ends[i]))
        else:
            store_u32(rows[i] + end_at, np.uint32(ends[i]))


@njit(cache=True, nogil=True)
def any_null(rows, bitmap_bytes):  # type: ignore[no-untyped-def]
    seen = np.uint8(0)
    for i in range(rows.size):
        if rows[i] == 0:
            return True
        for j in range(bitmap_bytes):
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


@njit(cache=True, nogil=True)
def get_offsets(rows, start_at, end_at, end_bytes, offsets):  # type: ignore[no-untyped-def]
    """Arrow offsets of a variable column; returns the total size, which may exceed 32 bits."""
    total = np.int64(0)
    offsets[0] = 0
    for i in range(rows.size):
        if rows[i] != 0:
            start = np.int64(0) if start_at < 0 else _load_end(rows[i] + start_at, end_bytes)
            total += _load_end(rows[i] + end_at, end_bytes) - start
        offsets[i + 1] = total
    return total


@njit(cache=True, nogil=True)
def get_variable(rows, start_at, body_at, end_bytes, offsets, out):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        if rows[i] != 0:
            start = np.int64(0) if start_at < 0 else _load_end(rows[i] + start_at, end_bytes)
            copy_bytes(out + offsets[i], rows[i] + body_at + start, offsets[i + 1] - offsets[i])


@njit(cache=True)
def row_bytes(row, fixed_bytes, last_end_at, end_bytes):  # type: ignore[no-untyped-def]
    """The size of one row; rows say their own size, so that rows of one key can stand side by side."""
    if last_end_at < 0:
        return fixed_bytes
    return fixed_bytes + _load_end(row + last_end_at, end_bytes)
