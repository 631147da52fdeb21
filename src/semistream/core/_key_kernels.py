"""Kernels of `keys`: order-preserving encoding, comparison, gathering."""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._hash_kernels import hash_address, mix64
from semistream.core._memory import copy_bytes, load_u8, load_u64, store_u8, store_u64, swap_bytes

SIGN = np.uint64(1 << 63)
PREFIX_BYTES = 8


@njit(cache=True, nogil=True)
def order_words(signed, out):  # type: ignore[no-untyped-def]
    """Unsigned order of out = signed order of the numbers."""
    for i in range(signed.size):
        out[i] = np.uint64(signed[i]) ^ SIGN


@njit(cache=True, nogil=True)
def mix_words(words, out):  # type: ignore[no-untyped-def]
    for i in range(words.size):
        out[i] = mix64(words[i])


@njit(cache=True, nogil=True)
def hash_slices(offsets, data, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = hash_address(data + offsets[i], offsets[i + 1] - offsets[i], np.uint64(0))


@njit(cache=True)
def prefix_at(address, size):  # type: ignore[no-untyped-def]
    """The first eight bytes as a big-endian number, zero-padded."""
    if size >= PREFIX_BYTES:
        return swap_bytes(load_u64(address))
    word = np.uint64(0)
    for j in range(size):
        word |= np.uint64(load_u8(address + j)) << np.uint64(56 - 8 * j)
    return word


@njit(cache=True, nogil=True)
def prefixes(offsets, data, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = prefix_at(data + offsets[i], offsets[i + 1] - offsets[i])


@njit(cache=True)
def compare_bytes(a, a_size, b, b_size):  # type: ignore[no-untyped-def]
    """-1, 0 or 1: unsigned lexicographic order, a shorter key before its extensions."""
    common = min(a_size, b_size)
    i = 0
    while i + 8 <= common:
        wa = load_u64(a + i)
        wb = load_u64(b + i)
        if wa != wb:
            return -1 if swap_bytes(wa) < swap_bytes(wb) else 1
        i += 8
    while i < common:
        ba = load_u8(a + i)
        bb = load_u8(b + i)
        if ba != bb:
            return -1 if ba < bb else 1
        i += 1
    if a_size == b_size:
        return 0
    return -1 if a_size < b_size else 1


@njit(cache=True, nogil=True)
def differs_from_previous(prefix, fixed, offsets, data, out):  # type: ignore[no-untyped-def]
    out[0] = True
    for i in range(1, prefix.size):
        if prefix[i] != prefix[i - 1]:
            out[i] = True
        elif fixed:
            out[i] = False
        else:
            a = offsets[i - 1]
            b = offsets[i]
            c = offsets[i + 1]
            out[i] = compare_bytes(data + a, b - a, data + b, c - b) != 0


@njit(cache=True, nogil=True)
def gather_slices(offsets, data, index, out_offsets, out):  # type: ignore[no-untyped-def]
    for i in range(index.size):
        start = offsets[index[i]]
        copy_bytes(out + out_offsets[i], data + start, out_offsets[i + 1] - out_offsets[i])


# A part that is not the last must end where its value ends, and sort before longer values: a zero byte
# becomes 00 FF, and 00 00 closes the part.


@njit(cache=True, nogil=True)
def add_part_lengths(offsets, data, last, valid, lengths):  # type: ignore[no-untyped-def]
    for i in range(lengths.size):
        if not valid[i]:
            continue
        size = offsets[i + 1] - offsets[i]
        if not last:
            for j in range(offsets[i], offsets[i + 1]):
                if load_u8(data + j) == 0:
                    size += 1
            size += 2
        lengths[i] += size


@njit(cache=True, nogil=True)
def put_bytes(offsets, data, last, valid, cursor, out):  # type: ignore[no-untyped-def]
    for i in range(cursor.size):
        if not valid[i]:
            continue
        at = out + cursor[i]
        start = at
        if last:
            copy_bytes(at, data + offsets[i], offsets[i + 1] - offsets[i])
            at += offsets[i + 1] - offsets[i]
        else:
            for j in range(offsets[i], offsets[i + 1]):
                byte = load_u8(data + j)
                store_u8(at, byte)
                at += 1
                if byte == 0:
                    store_u8(at, np.uint8(255))
                    at += 1
            store_u8(at, np.uint8(0))
            store_u8(at + 1, np.uint8(0))
            at += 2
        cursor[i] += at - start


@njit(cache=True, nogil=True)
def put_words(words, words_per_row, valid, cursor, out):  # type: ignore[no-untyped-def]
    """Numbers of one or two little-endian words, as big-endian bytes with the sign bit flipped."""
    for i in range(cursor.size):
        if not valid[i]:
            continue
        at = out + cursor[i]
        top = np.uint64(words[words_per_row * i + words_per_row - 1]) ^ SIGN
        store_u64(at, swap_bytes(top))
        if words_per_row == 2:
            store_u64(at + 8, swap_bytes(np.uint64(words[2 * i])))
        cursor[i] += 8 * words_per_row
