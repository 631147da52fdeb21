"""The row layout that pages and front stages share: all columns of one row in one place.

    null bits | fixed-width values | end offsets of the variable values | variable bytes

A joined row is touched as a whole, so a row costs one or two cache lines instead of one per column. A row
knows its own size and holds at least one byte. End offsets take one byte each where that is enough: bit 0
of the row says when it is not, bit i + 1 that column i is null.
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
NARROW_BYTES_MAX = 255
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
    """Encodes and decodes rows of one schema. `end_bytes` is the width of ends in rows with more than
    255 variable bytes: 2 where no row exceeds 64 KiB, else 4.

    Cost: one kernel call per column and batch; memory is the Arrow columns that come out, nothing else.
    """

    schema: pa.Schema
    end_bytes: int

    @cached_property
    def _widths(self) -> list[int]:
        return [value_width_bytes(field.type, field.name) for field in self.schema]

    @cached_property
    def bitmap_bytes(self) -> int:
        return (len(self.schema) + 1 + 7) // 8

    @cached_property
    def _positions(self) -> list[int]:
        """Per column: where its value stands in the row, or which of the variable columns it is."""
        at, variable, positions = self.bitmap_bytes, 0, []
        for width in self._widths:
            positions.append(at if width else variable)
            at, variable = at + width, variable + (not width)
        return positions

    @cached_property
    def variable_at(self) -> int:
        """Where the end offsets stand."""
        return self.bitmap_bytes + sum(self._widths)

    @cached_property
    def variable_columns(self) -> int:
        return self._widths.count(0)

    @cached_property
    def kernel_shape(self) -> tuple[int, int, int]:
        """What kernels need to know to walk rows: (variable_at, variable, end_bytes)."""
        return self.variable_at, self.variable_columns, self.end_bytes

    @property
    def bytes_min(self) -> int:
        """The size of a row whose variable values are empty."""
        return self.variable_at + self.variable_columns

    def sizes(self, columns: list[pa.Array], count: int) -> npt.NDArray[np.int64]:
        """The encoded size of each of `count` rows."""
        variable = self._variable_bytes(columns, count)
        wide = variable > NARROW_BYTES_MAX
        return self.bytes_min + wide * (self.variable_columns * (self.end_bytes - 1)) + variable

    def sizes_at(self, rows: Addresses) -> npt.NDArray[np.int64]:
        """The encoded size of each row that stands somewhere."""
        sizes = np.empty(rows.size, np.int64)
        kernels.row_sizes(rows, *self.kernel_shape, sizes)
        return sizes

    def encode(self, columns: list[pa.Array], rows: Addresses) -> None:
        """Writes row i to rows[i], where `sizes(...)[i]` bytes are the caller's to give."""
        kernels.clear(rows, self.bitmap_bytes, self._variable_bytes(columns, rows.size) > NARROW_BYTES_MAX)
        ends = np.zeros(rows.size, np.int64)
        for index, (column, width) in enumerate(zip(columns, self._widths, strict=True)):
            valid, position = validity(column), self._positions[index]
            if column.null_count:
                kernels.set_nulls(rows, (index + 1) // 8, (index + 1) % 8, valid)
            if width:
                values, stride = _encodable(column, width)
                kernels.put_fixed(rows, position, width, address_of(values), stride, valid)
            else:
                offsets, data = binary_parts(column)
                kernels.put_variable(
                    rows, self.variable_at, self.variable_columns, position, self.end_bytes,
                    ends, offsets, address_of(data), valid,
                )  # fmt: skip

    def _variable_bytes(self, columns: list[pa.Array], count: int) -> npt.NDArray[np.int64]:
        total = np.zeros(count, np.int64)
        for column, width in zip(columns, self._widths, strict=True):
            if not width:
                offsets = binary_parts(column)[0]
                lengths = offsets[1:] - offsets[:-1]
                total += np.where(validity(column), lengths, 0) if column.null_count else lengths
        return total

    def decode(self, rows: Addresses, chosen: tuple[int, ...] | None = None) -> list[pa.Array]:
        """One Arrow array per (chosen) column; a row at address 0 is all nulls."""
        indexes = range(len(self.schema)) if chosen is None else chosen
        kinds = [self.schema.field(index).type for index in indexes]
        columns, outputs = np.empty((len(kinds), 4), np.int64), []
        for c, (index, kind) in enumerate(zip(indexes, kinds, strict=True)):
            width = self._widths[index]
            arrow_width = 16 if pa.types.is_decimal(kind) else width
            output = np.empty(rows.size * arrow_width if width else 4 * (rows.size + 1), np.uint8)
            if not width:
                output[:4] = 0
            columns[c] = self._positions[index], width, arrow_width, address_of(output)
            outputs.append(output)
        totals = np.zeros(len(kinds), np.int64)
        nullable = kernels.get_values_and_offsets(
            rows, self.bitmap_bytes, self.variable_at, self.end_bytes, columns, totals
        )
        if totals.size and int(totals.max()) > _ARROW_OFFSET_LIMIT_BYTES:
            raise AssertionError(f"{totals.max()} bytes in one column of one batch; chunks must stay smaller")
        data = [np.empty(total, np.uint8) for total in totals]
        targets = np.array([address_of(each) for each in data], np.int64)
        kernels.get_variable(rows, self.variable_at, self.variable_columns, self.end_bytes, columns, targets)
        arrays = []
        for c, (index, kind) in enumerate(zip(indexes, kinds, strict=True)):
            bitmap, nulls = self._decode_validity(rows, index) if nullable else (None, 0)
            values = pack_bits(outputs[c]) if pa.types.is_boolean(kind) else pa.py_buffer(outputs[c])
            buffers = [bitmap, values] if self._widths[index] else [bitmap, values, pa.py_buffer(data[c])]
            arrays.append(pa.Array.from_buffers(kind, rows.size, buffers, nulls))
        return arrays

    def _decode_validity(self, rows: Addresses, index: int) -> tuple[pa.Buffer | None, int]:
        flags = np.empty(rows.size, np.uint8)
        nulls = int(kernels.get_valid(rows, (index + 1) // 8, (index + 1) % 8, flags))
        return (pack_bits(flags), nulls) if nulls else (None, 0)


def _encodable(column: pa.Array, width: int) -> tuple[npt.NDArray[np.uint8], int]:
    """The column's values, and the bytes from one to the next."""
    if pa.types.is_boolean(column.type):
        plain = column.cast(pa.uint8()).fill_null(0).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(plain, np.uint8), 1
    if pa.types.is_decimal(column.type):
        return fixed_values(column, 16), 16
    return fixed_values(column, width), width
