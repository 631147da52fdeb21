"""Arrow columns as NumPy arrays without copying, and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core import _loop_kernels as kernels

_EMPTY = np.zeros(1, np.uint8)


def address_of(array: npt.NDArray[np.generic]) -> int:
    """Where the array's first element is in memory."""
    return array.__array_interface__["data"][0]  # much faster than .ctypes


def validity(column: pa.Array) -> npt.NDArray[np.bool_]:
    """True where the column has a value."""
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    return column.is_valid().to_numpy(zero_copy_only=False)


def fixed_values(column: pa.Array, width_bytes: int) -> npt.NDArray[np.uint8]:
    """The bytes of a fixed-width column, `width_bytes` per row; null rows hold anything."""
    buffer = column.buffers()[1]
    start = column.offset * width_bytes
    if buffer is None or len(column) == 0:
        return np.zeros(len(column) * width_bytes, np.uint8)
    return np.frombuffer(buffer, np.uint8)[start : start + len(column) * width_bytes]


def binary_parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """(offsets, bytes) of a string or binary column; offsets count from the start of the bytes."""
    _, offset_buffer, data_buffer = column.buffers()
    if offset_buffer is None or len(column) == 0:
        return np.zeros(len(column) + 1, np.int64), _EMPTY
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    raw = np.frombuffer(offset_buffer, np.int64 if large else np.int32)
    offsets = raw[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = _EMPTY if data_buffer is None or data_buffer.size == 0 else np.frombuffer(data_buffer, np.uint8)
    return offsets, data


def row_sizes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """About the bytes of each row: exact for text and binary, the average for what is nested."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
            sizes += np.diff(binary_parts(column)[0]) + 4
        elif batch.num_rows:
            sizes += -(-column.nbytes // batch.num_rows)
    return sizes


TEXT_BYTES_EXPECTED = 16


def expected_row_bytes(schema: pa.Schema) -> float:
    """What a row will take before any is seen: a guess for whatever has no fixed width."""
    return sum(_width(field.type) for field in schema)


def _width(kind: pa.DataType) -> float:
    try:
        return kind.bit_width / 8
    except ValueError:
        return TEXT_BYTES_EXPECTED + 4


def is_identity(index: npt.NDArray[np.int64]) -> bool:
    """0, 1, 2, ..."""
    return bool(kernels.is_identity(index))


def pack_bits(flags: npt.NDArray[np.bool_] | npt.NDArray[np.uint8]) -> pa.Buffer:
    """An Arrow bitmap."""
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
