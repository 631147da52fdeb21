"""XXH64 as Spark's `xxhash64` computes it, and the checksum of pages and files.

Spark hashes a row column by column; the hash so far is the next column's seed, and the first seed is 42.
Integers are hashed as 8 bytes, booleans and dates as 4, so the same numbers come out here and in SQL.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from semistream.core._memory import load_u8, load_u32, load_u64

P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)


@njit(cache=True, inline="always")
def _rotate(value, bits):  # type: ignore[no-untyped-def]
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@njit(cache=True, inline="always")
def mix64(value):  # type: ignore[no-untyped-def]
    """XXH64's final avalanche: every bit of the input reaches every bit of the output."""
    value ^= value >> np.uint64(33)
    value *= P2
    value ^= value >> np.uint64(29)
    value *= P3
    value ^= value >> np.uint64(32)
    return value


@njit(cache=True)
def hash_address(address, size, seed):  # type: ignore[no-untyped-def]
    """XXH64 of `size` bytes at `address`."""
    end = address + size
    if size >= 32:
        v1 = seed + P1 + P2
        v2 = seed + P2
        v3 = seed
        v4 = seed - P1
        while address + 32 <= end:
            v1 = _rotate(v1 + load_u64(address) * P2, 31) * P1
            v2 = _rotate(v2 + load_u64(address + 8) * P2, 31) * P1
            v3 = _rotate(v3 + load_u64(address + 16) * P2, 31) * P1
            v4 = _rotate(v4 + load_u64(address + 24) * P2, 31) * P1
            address += 32
        result = _rotate(v1, 1) + _rotate(v2, 7) + _rotate(v3, 12) + _rotate(v4, 18)
        for lane in (v1, v2, v3, v4):
            result = (result ^ (_rotate(lane * P2, 31) * P1)) * P1 + P4
    else:
        result = seed + P5
    result += np.uint64(size)
    while address + 8 <= end:
        result = _rotate(result ^ (_rotate(load_u64(address) * P2, 31) * P1), 27) * P1 + P4
        address += 8
    if address + 4 <= end:
        result = _rotate(result ^ (np.uint64(load_u32(address)) * P1), 23) * P2 + P3
        address += 4
    while address < end:
        result = _rotate(result ^ (np.uint64(load_u8(address)) * P5), 11) * P1
        address += 1
    return mix64(result)


@njit(cache=True, nogil=True)
def hash_longs(values, valid, hashes):  # type: ignore[no-untyped-def]
    """hashes[i] = XXH64 of the 8 bytes of values[i], seeded with hashes[i]; nulls leave it as it is."""
    for i in range(values.size):
        if valid[i]:
            lane = _rotate(np.uint64(values[i]) * P2, 31) * P1
            result = hashes[i] + P5 + np.uint64(8)
            hashes[i] = mix64(_rotate(result ^ lane, 27) * P1 + P4)


@njit(cache=True, nogil=True)
def hash_ints(values, valid, hashes):  # type: ignore[no-untyped-def]
    """The same for the low 4 bytes of values[i] (booleans and dates)."""
    for i in range(values.size):
        if valid[i]:
            lane = (np.uint64(values[i]) & np.uint64(0xFFFFFFFF)) * P1
            result = hashes[i] + P5 + np.uint64(4)
            hashes[i] = mix64(_rotate(result ^ lane, 23) * P2 + P3)


@njit(cache=True, nogil=True)
def hash_strings(offsets, data_address, valid, hashes):  # type: ignore[no-untyped-def]
    """The same for the bytes data[offsets[i]:offsets[i + 1]]."""
    for i in range(hashes.size):
        if valid[i]:
            hashes[i] = hash_address(data_address + offsets[i], offsets[i + 1] - offsets[i], hashes[i])


@njit(cache=True, nogil=True)
def hash_wide_decimals(words, valid, hashes):  # type: ignore[no-untyped-def]
    """The same for 128-bit numbers given as (low, high) word pairs, as Java's BigInteger lays them out:
    big-endian two's complement in the fewest bytes."""
    scratch = np.empty(16, np.uint8)
    for i in range(hashes.size):
        if not valid[i]:
            continue
        for j in range(16):
            word = words[2 * i + (1 - j // 8)]
            scratch[j] = np.uint8((word >> np.uint64(8 * (7 - j % 8))) & np.uint64(0xFF))
        start = 0
        while start < 15:
            positive = scratch[start] == 0 and scratch[start + 1] < 128
            negative = scratch[start] == 255 and scratch[start + 1] >= 128
            if not (positive or negative):
                break
            start += 1
        hashes[i] = hash_address(scratch.ctypes.data + start, 16 - start, hashes[i])


@njit(cache=True, nogil=True)
def remainders(hashes, divisor, out):  # type: ignore[no-untyped-def]
    """out[i] = pmod(hashes[i] as a signed number, divisor)."""
    for i in range(hashes.size):
        remainder = np.int64(hashes[i]) % np.int64(divisor)
        out[i] = remainder


@njit(cache=True, nogil=True)
def checksum(address, size, seed):  # type: ignore[no-untyped-def]
    return hash_address(address, size, seed)
