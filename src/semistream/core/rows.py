"""The row layout that pages and front stages share: all columns of one row in one place.

    null bitmap | fixed-width values | end offsets of the variable values | variable bytes

A joined row is touched as a whole, so a row costs one or two cache lines instead of one per column. A row
knows its own size and holds at least one byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core import _row_kernels as kernels
from semistream.core.arrow import address_of, binary_parts, fixed_values, pack_bits, validity
from semistream.errors import SchemaError

Addresses = npt.NDArray[np.int64]

_FIXED_WIDTHS: dict[pa.DataType, int] = {
    pa.bool_(): 1,
    pa.int8(): 1,
    pa.int16(): 2,
    pa.int32(): 4,
    pa.int64(): 8,
    pa.float32(): 4,
    pa.float64(): 8,
    pa.date32(): 4,
}
_SHORT_DECIMAL_DIGITS = 18
_ARROW_OFFSET_LIMIT_BYTES = 2**31 - 1


def value_width_bytes(kind: pa.DataType, name: str) -> int:
    """Bytes a fixed-width value takes in a row, 0 for strings and binary. SchemaError for other types."""
    if kind in _FIXED_WIDTHS:
        return _FIXED_WIDTHS[kind]
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return 8
    if pa.types.is_decimal128(kind):
        return 8 if kind.precision <= _SHORT_DECIMAL_DIGITS else 16
    if kind in (pa.string(), pa.binary()):
        return 0
    if pa.types.is_nested(kind):
        hint = f"store it as JSON text: df.withColumn('{name}', to_json('{name}'))."
    else:
        hint = f"cast it to a number, string, binary, date or timestamp, or drop '{name}'."
    raise SchemaError(f"column '{name}' has the type {kind}, which a master table cannot hold.", hint=hint)


@dataclass(frozen=True, eq=False)
class RowLayout:
    """Encodes and decodes rows of one schema. `end_bytes` is 2 where no row exceeds 64 KiB, else 4.

    Cost: one kernel call per column and batch; memory is the Arrow columns that come out, nothing else.
    """

    schema: pa.Schema
    end_bytes: int

    @cached_property
    def _widths(self) -> list[int]:
        return [value_width_bytes(field.type, field.name) for field in self.schema]

    @cached_property
    def bitmap_bytes(self) -> int:
        return max(1, (len(self.schema) + 7) // 8)

    @cached_property
    def _positions(self) -> list[int]:
        """Per column: where its value, or its end offset, stands in the row."""
        at, positions = self.bitmap_bytes, [0] * len(self._widths)
        for index, width in enumerate(self._widths):
            if width:
                positions[index] = at
                at += width
        for index, width in enumerate(self._widths):
            if not width:
                positions[index] = at
                at += self.end_bytes
        return positions

    @cached_property
    def fixed_bytes(self) -> int:
        """The size of a row without its variable bytes."""
        return self.bitmap_bytes + sum(width or self.end_bytes for width in self._widths)

    @property
    def variable_columns(self) -> int:
        return self._widths.count(0)

    @cached_property
    def last_end_at(self) -> int:
        """Where the end of the last variable value stands; -1 if there are none."""
        return self.fixed_bytes - self.end_bytes if 0 in self._widths else -1

    def sizes(self, columns: list[pa.Array], count: int) -> npt.NDArray[np.int64]:
        """The encoded size of each of `count` rows."""
        sizes = np.full(count, self.fixed_bytes, np.int64)
        for column, width in zip(columns, self._widths, strict=True):
            if not width:
                lengths = np.diff(binary_parts(column)[0])
                sizes += np.where(validity(column), lengths, 0) if column.null_count else lengths
        return sizes

    def encode(self, columns: list[pa.Array], rows: Addresses) -> None:
        """Writes row i to rows[i], where `sizes(...)[i]` bytes are the caller's to give."""
        kernels.clear(rows, self.bitmap_bytes)
        ends = np.zeros(rows.size, np.int64)
        for index, (column, width) in enumerate(zip(columns, self._widths, strict=True)):
            valid, at = validity(column), self._positions[index]
            if column.null_count:
                kernels.set_nulls(rows, index // 8, index % 8, valid)
            if width:
                values, stride = _encodable(column, width)
                kernels.put_fixed(rows, at, width, address_of(values), stride, valid)
            else:
                offsets, data = binary_parts(column)
                kernels.put_variable(
                    rows, at, self.end_bytes, self.fixed_bytes, ends, offsets, address_of(data), valid
                )

    def decode(self, rows: Addresses, chosen: tuple[int, ...] | None = None) -> list[pa.Array]:
        """One Arrow array per (chosen) column; a row at address 0 is all nulls."""
        nullable = bool(kernels.any_null(rows, self.bitmap_bytes))
        arrays = []
        for index in range(len(self.schema)) if chosen is None else chosen:
            kind, width = self.schema.field(index).type, self._widths[index]
            bitmap, nulls = self._decode_validity(rows, index) if nullable else (None, 0)
            if width:
                buffers = [bitmap, self._decode_fixed(rows, index, kind, width)]
            else:
                buffers = [bitmap, *self._decode_variable(rows, index)]
            arrays.append(pa.Array.from_buffers(kind, rows.size, buffers, nulls))
        return arrays

    def _decode_validity(self, rows: Addresses, index: int) -> tuple[pa.Buffer | None, int]:
        flags = np.empty(rows.size, np.uint8)
        nulls = int(kernels.get_valid(rows, index // 8, index % 8, flags))
        return (pack_bits(flags), nulls) if nulls else (None, 0)

    def _decode_fixed(self, rows: Addresses, index: int, kind: pa.DataType, width: int) -> pa.Buffer:
        values = np.empty(rows.size * width, np.uint8)
        kernels.get_fixed(rows, self._positions[index], width, address_of(values))
        if pa.types.is_boolean(kind):
            return pack_bits(values)
        if pa.types.is_decimal(kind) and width == 8:
            wide = np.empty(2 * rows.size, np.int64)
            kernels.widen_decimals(values.view(np.int64), wide)
            return pa.py_buffer(wide)
        return pa.py_buffer(values)

    def _decode_variable(self, rows: Addresses, index: int) -> tuple[pa.Buffer, pa.Buffer]:
        end_at, end_bytes = self._positions[index], self.end_bytes
        first = all(self._widths[:index])
        start_at = -1 if first else end_at - end_bytes  # a value starts where the one before it ends
        offsets = np.empty(rows.size + 1, np.int32)
        total = kernels.get_offsets(rows, start_at, end_at, end_bytes, offsets)
        if total > _ARROW_OFFSET_LIMIT_BYTES:
            raise AssertionError(f"{total} bytes in one column of one batch; chunks must stay smaller")
        data = np.empty(total, np.uint8)
        kernels.get_variable(rows, start_at, self.fixed_bytes, end_bytes, offsets, address_of(data))
        return pa.py_buffer(offsets), pa.py_buffer(data)


def _encodable(column: pa.Array, width: int) -> tuple[npt.NDArray[np.uint8], int]:
    """The column's values, and the bytes from one to the next."""
    if pa.types.is_boolean(column.type):
        plain = column.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(plain, np.uint8), 1
    if pa.types.is_decimal(column.type):
        return fixed_values(column, 16), 16
    return fixed_values(column, width), width
