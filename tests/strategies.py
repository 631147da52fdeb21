"""Hypothesis strategies for columns, keys and tables.

Values come from small pools that Hypothesis draws and shrinks; rows are picked from the pools by a seeded
generator, so that examples have many rows, and many equal keys, without drawing each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tests.oracle import EXACT, random_table

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda unscaled: Decimal(unscaled).scaleb(-scale, EXACT))


def _text() -> st.SearchStrategy[str]:
    return st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        st.text("ab\x00", max_size=12),
        st.sampled_from(["", "a", "a" * 8, "a" * 9, "\U0001f600", "ä", "x" * 40, "x" * 41]),
    )


def _binary() -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.binary(max_size=6),
        st.binary(min_size=30, max_size=40),
        st.sampled_from([b"", b"\x00", b"\x00\x00", b"\x00\xff", b"\xff" * 9]),
    )


def _integers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.one_of(st.sampled_from([low, -1, 0, 1, high]), st.integers(low, high))


KEY_TYPES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.int8(): _integers(8),
    pa.int16(): _integers(16),
    pa.int32(): _integers(32),
    pa.int64(): _integers(64),
    pa.string(): _text(),
    pa.binary(): _binary(),
    pa.bool_(): st.booleans(),
    pa.date32(): _integers(32),
    pa.timestamp("us"): _integers(64),
    pa.timestamp("us", "UTC"): _integers(64),
    pa.decimal128(9, 2): decimals(9, 2),
    pa.decimal128(18, 0): decimals(18, 0),
    pa.decimal128(38, 6): st.one_of(decimals(38, 6), decimals(3, 0)),
}

VALUE_TYPES: dict[pa.DataType, st.SearchStrategy[object]] = {
    **KEY_TYPES,
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
}


def column(kind: pa.DataType, values: list[object]) -> pa.Array:
    """An Arrow column, also of dates and timestamps that Python's own types cannot hold."""
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


@st.composite
def pools(draw: st.DrawFn, kind: pa.DataType, *, size: int, nulls: bool) -> pa.Array:
    values = draw(st.lists(VALUE_TYPES[kind], min_size=1, max_size=size))
    if nulls:
        values = [*values, None]
    return column(kind, values)


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType, *, max_size: int = 12, nulls: bool = True) -> pa.Array:
    element = st.none() | VALUE_TYPES[kind] if nulls else VALUE_TYPES[kind]
    return column(kind, draw(st.lists(element, max_size=max_size)))


@dataclass(frozen=True, kw_only=True)
class JoinCase:
    """Two tables to join, and how the store is laid out."""

    master: pa.Table
    stream: pa.Table
    key: list[str]
    shards: int
    page_bytes: int

    def __repr__(self) -> str:
        return (
            f"JoinCase(master={self.master.schema.to_string()!r} x {self.master.num_rows}, "
            f"stream={self.stream.schema.to_string()!r} x {self.stream.num_rows}, key={self.key}, "
            f"shards={self.shards}, page_bytes={self.page_bytes})"
        )


KEY_COMBINATIONS = st.one_of(
    st.sampled_from([(kind,) for kind in KEY_TYPES]),
    st.lists(st.sampled_from(list(KEY_TYPES)), min_size=2, max_size=3).map(tuple),
)


@st.composite
def join_cases(draw: st.DrawFn, *, rows_max: int = 400) -> JoinCase:
    """Keys of any type with duplicates, nulls, and some on one side only; any value columns."""
    kinds = draw(KEY_COMBINATIONS)
    names = [f"k{position}" for position in range(len(kinds))]
    both, master_only, stream_only = {}, {}, {}
    for name, kind in zip(names, kinds, strict=True):
        nulls = draw(st.booleans())
        both[name] = draw(pools(kind, size=5, nulls=nulls))
        master_only[name] = draw(pools(kind, size=3, nulls=False))
        stream_only[name] = draw(pools(kind, size=3, nulls=False))
    value_kinds = draw(st.lists(st.sampled_from(list(VALUE_TYPES)), max_size=10))
    values = {f"v{i}": draw(pools(kind, size=3, nulls=True)) for i, kind in enumerate(value_kinds)}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = st.sampled_from([0, 1, 7, rows_max // 4, rows_max])
    master_rows, stream_rows = draw(sizes), draw(sizes)
    master = random_table(
        {**{name: pa.concat_arrays([both[name], master_only[name]]) for name in names}, **values},
        master_rows,
        rng,
    )
    payload = {"order": pa.array(range(1000), pa.int32()), "note": pa.array(["", "a", None, "ß" * 20])}
    stream = random_table(
        {**payload, **{name: pa.concat_arrays([both[name], stream_only[name]]) for name in names}},
        stream_rows,
        rng,
    )
    return JoinCase(
        master=master,
        stream=stream,
        key=names,
        shards=draw(st.sampled_from([1, 2, 5])),
        page_bytes=draw(st.sampled_from([512, 1024, 8192, 1 << 17])),
    )
