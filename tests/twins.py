"""Slow, obvious twins of the kernels, and memory that ends where a kernel must stop reading."""

from __future__ import annotations

import ctypes
import math
import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tests.oracle import MASK, P2, P3, xxh64

Bytes, I64, U64 = npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint64]
Shape = tuple[int, int, int]  # where the ends stand, how many, and how wide they are in a wide row

_LIBC = ctypes.CDLL(None, use_errno=True)


def mix64(value: int) -> int:
    """The last steps of XXH64."""
    value = (value ^ (value >> 33)) * P2 & MASK
    value = (value ^ (value >> 29)) * P3 & MASK
    return value ^ (value >> 32)


def guarded(content: bytes) -> Bytes:
    """A copy of `content` whose next byte nobody may touch: a kernel that does ends the process."""
    size = -(-len(content) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, size + mmap.PAGESIZE), np.uint8)
    fence = ctypes.c_void_p(memory.ctypes.data + size)
    assert _LIBC.mprotect(fence, ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy = memory[size - len(content) : size]
    copy[:] = np.frombuffer(content, np.uint8)
    return copy


def i64(values: Iterable[int]) -> I64:
    return np.array(list(values), np.int64)


def key_arrays(keys: list[bytes], fixed: bool) -> tuple[U64, I64, Bytes]:
    """(prefix, offsets, data) as a `KeyBatch` has them"""
    prefix = np.array([int.from_bytes(key[:8].ljust(8, b"\x00"), "big") for key in keys], np.uint64)
    if fixed:
        return prefix, i64([0]), np.zeros(0, np.uint8)
    return prefix, i64(accumulate(map(len, keys), initial=6)), guarded(b"before" + b"".join(keys))


def random_row(rng: Random, shape: Shape) -> bytes:
    """Null bits, the wide bit among them, and fixed values; ends; variable bytes."""
    variable_at, variable, end_bytes = shape
    ends = list(accumulate(rng.choice([0, 0, 1, 7, 30, 130]) for _ in range(variable)))
    is_wide = variable > 0 and (ends[-1] > 255 or rng.random() < 0.2)
    head = bytearray(rng.randbytes(variable_at))
    head[0] = head[0] & 0xFE | is_wide
    stored = b"".join(end.to_bytes(end_bytes if is_wide else 1, "little") for end in ends)
    return bytes(head) + stored + rng.randbytes(ends[-1] if ends else 0)


def row_size(content: bytes, shape: Shape) -> int | None:
    """The size of the row that `content` begins with, as its ends have it; None if it is not all there."""
    variable_at, variable, end_bytes = shape
    width = end_bytes if content[:1] and content[0] & 1 else 1
    stored = content[variable_at : variable_at + variable * width]
    ends = [int.from_bytes(stored[i : i + width], "little") for i in range(0, len(stored), width)]
    size = variable_at + variable * width + (ends[-1] if ends else 0)
    return size if size <= len(content) and ends == sorted(ends) else None


# -- density and the sketch --------------------------------------------------------------------------------

ROWS_PER_DRAIN, WINDOW_ROWS, SLOT_BYTES = DENSITY = 700.0, 10_000.0, 5.0

# The lower ends of the bins, from 2**-221 on: 16 equal steps between powers of two.
EDGES = [math.ldexp(1 + step / 16, power) for power in range(-221, 35) for step in range(16)]


def bin_twin(value: float) -> int:
    return max(1, bisect_right(EDGES, value) - 1) if value > 0 else 0


def bin_of_entry(quarters: int, size: int) -> int:
    share = quarters / 4 / WINDOW_ROWS
    return bin_twin(-math.expm1(-ROWS_PER_DRAIN * share) / (size + SLOT_BYTES))


class SketchTwin:
    """Lines of 128 counters, four of which a key owns in one line; no counter above 15."""

    def __init__(self, lines: int) -> None:
        self.lines = [[0] * 128 for _ in range(lines)]

    def raised(self, key_hash: int, increment: int, floor: int) -> int:
        hashed = mix64((key_hash + 0x9E3779B97F4A7C15) & MASK)
        line = self.lines[hashed * len(self.lines) >> 64]
        mine = [hashed >> 7 * j & 127 for j in range(4)]
        estimate = min(max(min(line[c] for c in mine) + increment, floor), 15)
        for c in mine:
            line[c] = max(line[c], estimate)
        return estimate

    def halve(self) -> None:
        self.lines = [[count // 2 for count in line] for line in self.lines]

    def to_bytes(self) -> bytes:
        counters = [count for line in self.lines for count in line]
        return bytes(low | high << 4 for low, high in zip(counters[::2], counters[1::2], strict=True))


# -- the region of the density front stage -----------------------------------------------------------------


class Entry(NamedTuple):
    at: int
    size: int
    key: bytes  # as stored: a little-endian word, or bytes of any number
    quarters: int
    rows: list[bytes]


def parse(memory: bytes, fixed: bool, shape: Shape) -> list[Entry]:
    """The chain of entries, read as the module's docstring has it; ValueError if it leaves the memory."""
    entries, at = [], 0
    while at < len(memory):
        header = int.from_bytes(memory[at : at + 4], "little")
        first = at + (4 if fixed else 8)
        row = first + (8 if fixed else int.from_bytes(memory[at + 4 : at + 8], "little"))
        key, rows = memory[first:row], []
        if row > len(memory):
            raise ValueError(f"the key of the entry at {at} is not all there")
        for _ in range(header >> 12):
            size = row_size(memory[row:], shape)
            if size is None:
                raise ValueError(f"the row at {row} is not all there")
            rows.append(memory[row : row + size])
            row += size
        size = -(-(row - at) // 4) * 4
        entries.append(Entry(at, size, key, header & 0xFFF, rows))
        at += size
    if at != len(memory):
        raise ValueError("the last entry ends behind the tail")
    return entries


def hash_of(key: bytes, fixed: bool) -> int:
    return mix64(int.from_bytes(key, "little")) if fixed else xxh64(key, 0)


def slots_twin(hashes_and_offsets: list[tuple[int, int]], slot_count: int, position_bits: int) -> list[int]:
    slots = [0] * slot_count
    for hashed, offset in hashes_and_offsets:
        at = hashed * slot_count >> 64
        while slots[at]:
            at = (at + 1) % slot_count
        slots[at] = hashed % (1 << (32 - position_bits)) << position_bits | (offset // 4 + 1)
    return slots


# -- pages -------------------------------------------------------------------------------------------------

PAGE_BYTES = 512

PageRow = tuple[bytes, bytes]  # key (fixed: big-endian), values


class Form(NamedTuple):
    """How pages are laid out: offsets of 2 or 4 bytes, keys of 8 bytes or of any length, values in a shape."""

    short: int
    fixed: bool
    shape: Shape
    seed: int

    def stored(self, row: PageRow) -> bytes:
        key, values = row
        return (key if self.fixed else len(key).to_bytes(self.short, "little") + key) + values


def paginate(rows: list[PageRow], form: Form) -> list[list[PageRow]]:
    """A page takes rows while its header, their offsets, checksums and bytes fit."""
    pages: list[list[PageRow]] = [[]]
    for row in rows:
        held = [*pages[-1], row]
        if 16 + sum(form.short + 4 + len(form.stored(each)) for each in held) > PAGE_BYTES:
            pages.append([])
        pages[-1].append(row)
    return pages if rows else []


def sealed(rows: list[PageRow], number: int, form: Form) -> bytes:
    """The page as the module's docstring has it."""
    page, end = bytearray(PAGE_BYTES), PAGE_BYTES
    row_seed = mix64(form.seed ^ number ^ len(rows) << 40)
    for i, row in enumerate(rows):
        body = form.stored(row)
        start = end - 4 - len(body)
        row_sum = xxh64(body, (row_seed + i) & MASK) % 2**32
        page[start:end] = struct.pack("<I", row_sum) + body
        at = 16 + i * form.short
        page[at : at + form.short] = start.to_bytes(form.short, "little")
        end = start
    page[8:16] = struct.pack("<II", len(rows), number)
    page[:8] = struct.pack("<Q", xxh64(bytes(page[8:]), mix64(form.seed ^ number)))
    return bytes(page)
