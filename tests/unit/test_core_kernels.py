"""The kernels of keys, hashes and rows against slow, obvious twins."""

from __future__ import annotations

from decimal import Decimal
from itertools import accumulate
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import xxh64
from tests.strategies import column
from tests.twins import guarded, mix64, random_row, row_size

from semistream.core import _hash_kernels as hash_kernels
from semistream.core import _key_kernels as key_kernels
from semistream.core import _loop_kernels as loop_kernels
from semistream.core import _row_kernels as row_kernels
from semistream.core.arrow import address_of
from semistream.core.keys import KeyEncoder

_bytes = st.binary(max_size=40) | st.text("ab\x00", max_size=20).map(str.encode)
_words = st.integers(0, 2**64 - 1)
_shapes = st.sampled_from([(1, 0, 2), (1, 1, 2), (9, 0, 4), (3, 2, 2), (5, 3, 4)])


@given(count=st.integers(0, 20), at=st.integers(0, 19), number=st.integers(0, 20))
def test_only_a_range_from_zero_is_an_identity(count: int, at: int, number: int) -> None:
    index = [number if i == at else i for i in range(count)]
    assert loop_kernels.is_identity(np.array(index, np.int64)) == (index == list(range(count)))


@given(words=st.lists(_words, max_size=8))
def test_words_are_mixed_as_the_last_steps_of_xxh64(words: list[int]) -> None:
    out = np.zeros(len(words), np.uint64)
    key_kernels.mix_words(np.array(words, np.uint64), out)
    assert out.tolist() == [mix64(word) for word in words]


@given(parts=st.lists(_bytes, min_size=1, max_size=8), seed=_words)
def test_slices_hashes_checksums_and_prefixes(parts: list[bytes], seed: int) -> None:
    content = guarded(b"before" + b"".join(parts))
    offsets = np.array(list(accumulate(map(len, parts), initial=6)), np.int64)
    out = np.zeros(len(parts), np.uint64)
    key_kernels.hash_slices(offsets, address_of(content), out)
    assert out.tolist() == [xxh64(part, 0) for part in parts]
    key_kernels.prefixes(offsets, address_of(content), out)
    assert out.tolist() == [int.from_bytes(part[:8].ljust(8, b"\x00"), "big") for part in parts]
    last = address_of(content) + int(offsets[-2])
    assert hash_kernels.checksum(last, len(parts[-1]), np.uint64(seed)) == xxh64(parts[-1], seed)


@given(start=_bytes, a=_bytes, b=_bytes)
def test_bytes_compare_as_python_compares_them(start: bytes, a: bytes, b: bytes) -> None:
    for x, y in ((a, b), (start, start), (start + a, start + b), (start, start + b), (start + a, start)):
        left, right = guarded(x), guarded(y)
        found = key_kernels.compare_bytes(address_of(left), len(x), address_of(right), len(y))
        assert found == (x > y) - (x < y)


_numbers = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-1, 0, 1])
_wide = st.integers(1 - 10**38, 10**38 - 1) | st.sampled_from([-1, 0, 1, 2**64, -(2**64) - 1])


@given(rows=st.lists(st.tuples(_bytes, _numbers, _wide, _bytes), max_size=6))
def test_the_bytes_of_a_key_of_many_parts(rows: list[tuple[bytes, int, int, bytes]]) -> None:
    """Numbers are big-endian with their sign flipped; a zero byte before the last part becomes 00 FF, and
    00 00 closes the part."""
    kinds = [pa.binary(), pa.int64(), pa.decimal128(38, 0), pa.binary()]
    values = [(a, n, Decimal(wide), z) for a, n, wide, z in rows]
    arrays = [column(kind, [row[i] for row in values]) for i, kind in enumerate(kinds)]
    expected = [
        a.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
        + (n + 2**63).to_bytes(8, "big") + (wide + 2**127).to_bytes(16, "big") + z
        for a, n, wide, z in rows
    ]  # fmt: skip
    assert KeyEncoder(kinds).encode(arrays).to_binary().to_pylist() == expected


def kernel_row_size(content: bytes, shape: tuple[int, int, int]) -> int | None:
    memory = guarded(content)
    if not row_kernels.row_fits(address_of(memory), len(content), *shape):
        return None
    return int(row_kernels.row_bytes(address_of(memory), *shape))


@given(seed=st.integers(0, 2**32 - 1), shape=_shapes)
def test_a_row_fits_where_its_own_ends_stay_inside_the_room(seed: int, shape: tuple[int, int, int]) -> None:
    rng = Random(seed)
    row = random_row(rng, shape)
    assert kernel_row_size(row, shape) == row_size(row, shape) == len(row)
    assert kernel_row_size(row + b"more", shape) == len(row)
    for room in (0, rng.randrange(len(row)), len(row) - 1):
        assert kernel_row_size(row[:room], shape) is None
    for _ in range(10):
        damaged = bytearray(row)
        damaged[rng.choice([0, rng.randrange(len(row))])] = rng.choice([0, 1, 255, rng.randrange(256)])
        assert kernel_row_size(bytes(damaged), shape) == row_size(bytes(damaged), shape)
