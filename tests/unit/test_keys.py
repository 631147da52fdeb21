"""Keys: byte order equals value order, equal values are equal bytes, shards are Spark's."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import plain, shard_of, xxh64
from tests.strategies import KEY_COMBINATIONS, KEY_TYPES, VALUE_TYPES, column, columns

from semistream.core.keys import KeyBatch, KeyEncoder, concat_keys
from semistream.errors import SchemaError


def encoded(kinds: list[pa.DataType], arrays: list[pa.Array]) -> tuple[KeyBatch, list[bytes]]:
    keys = KeyEncoder(kinds).encode(arrays)
    return keys, keys.to_binary().to_pylist()


def comparable(value: object) -> object:
    """Spark orders strings by their UTF-8 bytes; Python by code points, which is the same."""
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
@given(data=st.data())
def test_byte_order_is_value_order(kind: pa.DataType, data: st.DataObject) -> None:
    array = data.draw(columns(kind, nulls=False))
    _, keys = encoded([kind], [array])
    values = [comparable(value) for value in plain(array)]
    for (a, key_a), (b, key_b) in itertools.product(zip(values, keys, strict=True), repeat=2):
        assert (a < b, a == b) == (key_a < key_b, key_a == key_b)


@given(kinds=KEY_COMBINATIONS, data=st.data())
def test_composite_byte_order_is_the_order_of_tuples(
    kinds: tuple[pa.DataType, ...], data: st.DataObject
) -> None:
    # Few values per part, so that equal first parts are common and the later ones decide.
    parts = [data.draw(st.lists(VALUE_TYPES[kind], min_size=1, max_size=3)) for kind in kinds]
    tuples = list(itertools.product(*parts))[:20]
    arrays = [column(kind, [row[i] for row in tuples]) for i, kind in enumerate(kinds)]
    _, keys = encoded(list(kinds), arrays)
    values = [tuple(map(comparable, row)) for row in zip(*map(plain, arrays), strict=True)]
    for (a, key_a), (b, key_b) in itertools.product(zip(values, keys, strict=True), repeat=2):
        assert (a < b, a == b) == (key_a < key_b, key_a == key_b)


@given(kinds=KEY_COMBINATIONS, data=st.data())
def test_a_key_with_a_null_part_is_invalid(kinds: tuple[pa.DataType, ...], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 8))
    rows = [[data.draw(st.none() | VALUE_TYPES[kind]) for _ in range(count)] for kind in kinds]
    arrays = [column(kind, values) for kind, values in zip(kinds, rows, strict=True)]
    keys, _ = encoded(list(kinds), arrays)
    assert keys.valid.tolist() == [None not in row for row in zip(*rows, strict=True)]


@given(kinds=KEY_COMBINATIONS, data=st.data(), shards=st.sampled_from([1, 2, 3, 7, 10_000]))
def test_shards_equal_the_slow_twin(kinds: tuple[pa.DataType, ...], data: st.DataObject, shards: int) -> None:
    count = data.draw(st.integers(0, 8))
    arrays = [
        column(kind, [data.draw(st.none() | VALUE_TYPES[kind]) for _ in range(count)]) for kind in kinds
    ]
    encoder = KeyEncoder(list(kinds))
    rows = zip(*map(plain, arrays), strict=True)
    expected = [shard_of(row, encoder.types, shards) for row in rows]
    assert encoder.shards(arrays, shards).tolist() == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)],
)
def test_the_slow_twin_knows_the_published_vectors(content: bytes, expected: int) -> None:
    assert xxh64(content, 0) == expected


@pytest.mark.parametrize("size", [*range(70), 255, 256, 1000])
def test_shards_of_binary_keys_of_every_length(size: int) -> None:
    content = bytes((31 * i + size) % 256 for i in range(size))
    found = KeyEncoder([pa.binary()]).shards([pa.array([content], pa.binary())], 1 << 30)
    assert found.tolist() == [shard_of([content], [pa.binary()], 1 << 30)]


@pytest.mark.parametrize(
    "unscaled",
    [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        255,
        256,
        2**63 - 1,
        2**63,
        -(2**63),
        -(2**63) - 1,
        10**38 - 1,
        1 - 10**38,
    ],
)
def test_shards_of_wide_decimals(unscaled: int) -> None:
    kind = pa.decimal128(38, 0)
    found = KeyEncoder([kind]).shards([pa.array([Decimal(unscaled)], kind)], 1 << 30)
    assert found.tolist() == [shard_of([Decimal(unscaled)], [kind], 1 << 30)]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint32()], ids=str)
def test_integers_of_any_width_are_alike(kind: pa.DataType) -> None:
    narrow, wide = pa.array([0, 1, 100, None], kind), pa.array([0, 1, 100, None], pa.int64())
    here, there = KeyEncoder([kind]), KeyEncoder([pa.int64()])
    assert here.encode([narrow]).prefix[:3].tolist() == there.encode([wide]).prefix[:3].tolist()
    assert here.shards([narrow], 97)[:3].tolist() == there.shards([wide], 97)[:3].tolist()


@pytest.mark.parametrize(
    ("large", "plain_kind"), [(pa.large_string(), pa.string()), (pa.large_binary(), pa.binary())], ids=str
)
def test_large_strings_are_strings(large: pa.DataType, plain_kind: pa.DataType) -> None:
    values = ["", "ab", "x" * 50, None]
    here = KeyEncoder([large]).encode([pa.array(values, large)])
    there = KeyEncoder([plain_kind]).encode([pa.array(values, plain_kind)])
    assert here.to_binary().to_pylist()[:3] == there.to_binary().to_pylist()[:3]


def test_a_session_in_another_zone_makes_the_same_keys() -> None:
    moments = pa.array([0, 1_700_000_000_000_000, None], pa.timestamp("us", "UTC"))
    elsewhere = moments.cast(pa.timestamp("us", "America/New_York"))
    encoder = KeyEncoder([moments.type])
    assert encoder.encode([elsewhere]).prefix.tolist()[:2] == encoder.encode([moments]).prefix.tolist()[:2]
    assert encoder.shards([elsewhere], 64).tolist() == encoder.shards([moments], 64).tolist()


@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
def test_sliced_columns_are_read_from_their_offset(kind: pa.DataType) -> None:
    values = {
        "string": ["no", "yes", "", "x" * 33, None, "no"],
        "binary": [b"no", b"yes", b"", b"x" * 33, None, b"no"],
        "bool": [True, False, True, True, None, False],
    }.get(str(kind), [7, 1, -2, 3, None, 9])
    if pa.types.is_decimal(kind):
        values = [value if value is None else Decimal(value) for value in values]
    whole = column(kind, values)
    apart = column(kind, values[1:5])
    encoder = KeyEncoder([kind, kind])
    sliced = [whole.slice(1, 4), whole.slice(1, 4)]
    ours, theirs = encoder.encode(sliced), encoder.encode([apart, apart])
    assert ours.to_binary().to_pylist()[:3] == theirs.to_binary().to_pylist()[:3]
    assert ours.valid.tolist() == theirs.valid.tolist() == [True, True, True, False]
    assert encoder.shards(sliced, 1000).tolist() == encoder.shards([apart, apart], 1000).tolist()


@given(kinds=KEY_COMBINATIONS, data=st.data())
def test_sorting_taking_slicing_and_runs(kinds: tuple[pa.DataType, ...], data: st.DataObject) -> None:
    pool = data.draw(st.lists(st.tuples(*(VALUE_TYPES[kind] for kind in kinds)), min_size=1, max_size=4))
    picked = data.draw(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=30))
    rows = [pool[i] for i in picked]
    keys, content = encoded(list(kinds), [column(kind, [r[i] for r in rows]) for i, kind in enumerate(kinds)])
    order = keys.sort_order()
    ordered = keys.take(order)
    assert order.tolist() == sorted(range(len(rows)), key=lambda i: content[i])  # stable
    assert ordered.to_binary().to_pylist() == sorted(content)
    runs = [0, *(i for i in range(1, len(rows)) if sorted(content)[i] != sorted(content)[i - 1])]
    assert ordered.starts().tolist() == runs
    cut = data.draw(st.integers(0, len(rows)))
    parts = [keys.slice(0, cut), keys.slice(cut, len(rows))]
    assert concat_keys(parts).to_binary().to_pylist() == content
    assert concat_keys(parts).hashes.tolist() == keys.hashes.tolist()
    tail = parts[1].take(np.arange(len(rows) - cut)[::-1].copy())
    assert tail.to_binary().to_pylist() == content[cut:][::-1]


@given(data=st.data())
def test_equal_keys_have_equal_hashes_and_others_rarely(data: st.DataObject) -> None:
    values = data.draw(
        st.lists(st.integers(), unique=True, max_size=40).map(lambda v: [x % 2**63 for x in v])
    )
    keys = KeyEncoder([pa.int64()]).encode([pa.array(values, pa.int64())])
    assert len(set(keys.hashes.tolist())) == len(set(values))


@pytest.mark.parametrize(
    "kind", [pa.float64(), pa.uint64(), pa.list_(pa.int64()), pa.decimal256(40, 0), pa.time64("us")], ids=str
)
def test_a_type_that_cannot_be_a_key_is_refused_with_a_hint(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="cannot be joined on") as caught:
        KeyEncoder([kind])
    assert "Hint:" in str(caught.value)
