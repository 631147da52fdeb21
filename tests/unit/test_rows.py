"""Rows: what is encoded comes back, for every type, from any slice, with any mixture of nulls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import plain
from tests.strategies import VALUE_TYPES, column

from semistream.core._row_kernels import row_bytes
from semistream.core.arrow import address_of
from semistream.core.rows import RowLayout, value_width_bytes
from semistream.errors import SchemaError

GUARD = 0xA5


class Encoded:
    """Rows packed one behind the other, with a guard byte after each to catch a write too far."""

    def __init__(self, layout: RowLayout, columns: list[pa.Array], count: int) -> None:
        self.sizes = layout.sizes(columns, count)
        starts = np.concatenate([[0], np.cumsum(self.sizes + 1)])
        self.memory = np.full(int(starts[-1]) + 1, GUARD, np.uint8)
        self.at: npt.NDArray[np.int64] = address_of(self.memory) + starts[:-1]
        layout.encode(columns, self.at)
        assert (self.memory[starts[1:] - 1] == GUARD).all()


def table_of(data: st.DataObject, kinds: list[pa.DataType], count: int) -> list[pa.Array]:
    return [column(kind, [data.draw(st.none() | VALUE_TYPES[kind]) for _ in range(count)]) for kind in kinds]


def schema_of(kinds: list[pa.DataType]) -> pa.Schema:
    return pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])


@pytest.mark.parametrize("total", [254, 255, 256, 257, 65_400])
@pytest.mark.parametrize("end_bytes", [2, 4])
def test_rows_around_the_widths_of_end_offsets(total: int, end_bytes: int) -> None:
    layout = RowLayout(schema_of([pa.string(), pa.int32(), pa.binary()]), end_bytes)
    columns = [
        pa.array(["a" * total, "a" * (total - 1), "", None, "b"]),
        pa.array([1, 2, 3, 4, None], pa.int32()),
        pa.array([b"", b"c", b"d" * total, b"d" * total, None]),
    ]
    rows = Encoded(layout, columns, 5)
    assert [array.to_pylist() for array in layout.decode(rows.at)] == [c.to_pylist() for c in columns]
    assert [row_bytes(at, *layout.kernel_shape) for at in rows.at] == rows.sizes.tolist()


@given(
    kinds=st.lists(st.sampled_from(list(VALUE_TYPES)), max_size=18),
    count=st.integers(0, 5),
    end_bytes=st.sampled_from([2, 4]),
    data=st.data(),
)
def test_round_trip(kinds: list[pa.DataType], count: int, end_bytes: int, data: st.DataObject) -> None:
    layout = RowLayout(schema_of(kinds), end_bytes)
    columns = table_of(data, kinds, count)
    rows = Encoded(layout, columns, count)
    found = layout.decode(rows.at)
    for array in found:
        array.validate(full=True)
    assert [array.type for array in found] == kinds
    assert [plain(array) for array in found] == [plain(array) for array in columns]


@given(kinds=st.lists(st.sampled_from(list(VALUE_TYPES)), min_size=1, max_size=10), data=st.data())
def test_a_row_says_its_own_size(kinds: list[pa.DataType], data: st.DataObject) -> None:
    layout = RowLayout(schema_of(kinds), 2)
    rows = Encoded(layout, table_of(data, kinds, 3), 3)
    for at, size in zip(rows.at, rows.sizes, strict=True):
        assert row_bytes(at, *layout.kernel_shape) == size >= 1


@given(kinds=st.lists(st.sampled_from(list(VALUE_TYPES)), min_size=2, max_size=10), data=st.data())
def test_chosen_columns_any_order_and_rows_without_match(
    kinds: list[pa.DataType], data: st.DataObject
) -> None:
    layout = RowLayout(schema_of(kinds), 2)
    columns = table_of(data, kinds, 3)
    rows = Encoded(layout, columns, 3)
    chosen = tuple(data.draw(st.permutations(range(len(kinds))))[:3])
    picked = [2, None, 0, None, 0]
    found = layout.decode(np.array([0 if i is None else rows.at[i] for i in picked], np.int64), chosen)
    for position, array in zip(chosen, found, strict=True):
        array.validate(full=True)
        values = plain(columns[position])
        assert plain(array) == [None if i is None else values[i] for i in picked]


@pytest.mark.parametrize("kind", VALUE_TYPES, ids=str)
def test_sliced_columns_are_read_from_their_offset(kind: pa.DataType) -> None:
    known = {
        pa.string(): ["no", "yes", "", None, "x" * 300],
        pa.binary(): [b"no", b"yes", b"", None, b"x" * 300],
        pa.bool_(): [True, False, True, None, True],
    }
    values = column(kind, known.get(kind, [9, 1, -2, None, 3]))
    layout = RowLayout(schema_of([kind]), 2)
    rows = Encoded(layout, [values.slice(1, 3)], 3)
    assert plain(layout.decode(rows.at)[0]) == plain(values.slice(1, 3))


def test_strings_beyond_64_kib_need_wide_ends() -> None:
    kinds = [pa.string(), pa.int64(), pa.binary()]
    columns = [
        pa.array(["a" * 70_000, None, "b"], kinds[0]),
        pa.array([1, 2, None], kinds[1]),
        pa.array([b"c" * 200_000, b"d", None], kinds[2]),
    ]
    layout = RowLayout(schema_of(kinds), 4)
    rows = Encoded(layout, columns, 3)
    assert [array.to_pylist() for array in layout.decode(rows.at)] == [c.to_pylist() for c in columns]


def test_large_strings_are_read_with_their_wide_offsets() -> None:
    layout = RowLayout(schema_of([pa.string()]), 2)
    values = ["x", "", None, "häuser"]
    rows = Encoded(layout, [pa.array(values, pa.large_string())], 4)
    assert layout.decode(rows.at)[0].to_pylist() == values


def test_null_values_behind_garbage_do_not_leak_into_the_row() -> None:
    # An Arrow null may have any bytes under it; equal rows must be equal bytes all the same.
    content = pa.py_buffer(np.array([7, 8], np.int64))
    garbage = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x02"), content])
    layout = RowLayout(schema_of([pa.int64()]), 2)
    rows = Encoded(layout, [garbage], 2)
    assert rows.memory[1 : 1 + 8].tolist() == [0] * 8
    assert layout.decode(rows.at)[0].to_pylist() == [None, 8]


def test_a_layout_without_columns_has_rows_of_one_byte() -> None:
    layout = RowLayout(pa.schema([]), 2)
    assert layout.sizes([], 3).tolist() == [1, 1, 1]
    assert layout.decode(np.zeros(3, np.int64)) == []


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int32()), pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8())], ids=str
)
def test_nested_types_hint_at_json(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="'tags'") as caught:
        value_width_bytes(kind, "tags")
    assert "to_json('tags')" in str(caught.value)


@pytest.mark.parametrize("kind", [pa.uint16(), pa.float16(), pa.timestamp("ns"), pa.duration("s")], ids=str)
def test_other_types_hint_at_a_cast(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="cannot hold") as caught:
        value_width_bytes(kind, "odd")
    assert "cast it" in str(caught.value)
