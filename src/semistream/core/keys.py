"""Join keys as bytes whose unsigned order is the order of the values, and the shard each key belongs to.

Every part of the join works on `KeyBatch`: it never sees what types a key is made of. A key of one
fixed-width column is a single 64-bit word, the `prefix`; any other key has its first eight bytes there
(zero-padded) and all its bytes in `data`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semistream.core import _hash_kernels as hashing
from semistream.core import _key_kernels as kernels
from semistream.core.arrow import address_of, binary_parts, fixed_values, validity
from semistream.errors import SchemaError

FIXED_WIDTH_BYTES = 8
SPARK_SEED = 42

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(kw_only=True, eq=False)  # not frozen, since each small step makes some
class KeyBatch:
    """The keys of n rows. `valid[i]` is False where any part of key i is null: such a key matches nothing.

    `fixed` says that `prefix` is the whole key; then `offsets` and `data` are empty.
    """

    prefix: U64
    valid: Bools
    fixed: bool
    offsets: I64
    data: npt.NDArray[np.uint8]

    @classmethod
    def of_words(cls, words: U64) -> KeyBatch:
        """Keys that are single words, none of them null."""
        return cls(prefix=words, valid=all_true(words.size), fixed=True, offsets=_NO_OFFSETS, data=_NO_BYTES)

    def __len__(self) -> int:
        return self.prefix.size

    @property
    def data_address(self) -> int:
        return 0 if self.fixed else address_of(self.data)

    @cached_property
    def hashes(self) -> U64:
        """One hash per key, of its bytes; for hash tables and sketches, not for sharding."""
        out = np.empty(len(self), np.uint64)
        if self.fixed:
            kernels.mix_words(self.prefix, out)
        else:
            kernels.hash_slices(self.offsets, self.data_address, out)
        return out

    @property
    def nbytes(self) -> int:
        """Bytes of these keys, also where they are a slice of more."""
        data_bytes = 0 if self.fixed else int(self.offsets[-1] - self.offsets[0])
        return int(self.prefix.nbytes + self.valid.nbytes + self.offsets.nbytes) + data_bytes

    @property
    def sizes(self) -> I64:
        """The bytes of each key here."""
        fixed = np.full(len(self), FIXED_WIDTH_BYTES + 1, np.int64)
        return fixed if self.fixed else fixed + FIXED_WIDTH_BYTES + np.diff(self.offsets)

    def take(self, index: npt.NDArray[np.int64]) -> KeyBatch:
        """The keys at `index`, in that order, in memory of their own."""
        if self.fixed:
            offsets, data = _NO_OFFSETS, _NO_BYTES
        else:
            lengths = self.offsets[index + 1] - self.offsets[index]
            offsets = offsets_from(lengths)
            data = np.empty(int(offsets[-1]), np.uint8)
            kernels.gather_slices(self.offsets, self.data_address, index, offsets, address_of(data))
        return KeyBatch(
            prefix=self.prefix[index], valid=self.valid[index], fixed=self.fixed, offsets=offsets, data=data
        )

    def slice(self, start: int, stop: int) -> KeyBatch:
        """The keys start..stop-1; shares memory with this batch."""
        return KeyBatch(
            prefix=self.prefix[start:stop],
            valid=self.valid[start:stop],
            fixed=self.fixed,
            offsets=self.offsets if self.fixed else self.offsets[start : stop + 1],
            data=self.data,
        )

    def sort_order(self) -> npt.NDArray[np.int64]:
        """The stable permutation that puts the keys into byte order."""
        if self.fixed:
            return np.argsort(self.prefix, kind="stable").astype(np.int64, copy=False)
        return pc.array_sort_indices(self.to_binary()).to_numpy().astype(np.int64, copy=False)

    def starts(self) -> npt.NDArray[np.int64]:
        """For sorted keys: where each run of equal keys begins."""
        if len(self) == 0:
            return np.empty(0, np.int64)
        differs = np.empty(len(self), np.bool_)
        kernels.differs_from_previous(self.prefix, self.fixed, self.offsets, self.data_address, differs)
        return np.flatnonzero(differs).astype(np.int64, copy=False)

    def to_binary(self) -> pa.Array:
        """The key bytes as an Arrow column."""
        if self.fixed:
            data = self.prefix.astype(">u8").tobytes()
            return pa.Array.from_buffers(pa.binary(8), len(self), [None, pa.py_buffer(data)])
        offsets = np.ascontiguousarray(self.offsets)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)


def concat_keys(parts: list[KeyBatch]) -> KeyBatch:
    """All parts' keys one after the other."""
    if len(parts) == 1:
        return parts[0]
    fixed = parts[0].fixed
    if fixed:
        offsets, data = _NO_OFFSETS, _NO_BYTES
    else:
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        offsets = offsets_from(lengths)
        data = np.concatenate([part.data[part.offsets[0] : part.offsets[-1]] for part in parts])
    return KeyBatch(
        prefix=np.concatenate([part.prefix for part in parts]),
        valid=np.concatenate([part.valid for part in parts]),
        fixed=fixed,
        offsets=offsets,
        data=data,
    )


def offsets_from(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


_TRUE = np.ones(1024, np.bool_)


def all_true(count: int) -> Bools:
    """So many times True, to be read only."""
    return _TRUE[:count] if count <= _TRUE.size else np.ones(count, np.bool_)


_NO_OFFSETS = np.zeros(1, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)


def canonical_type(kind: pa.DataType) -> pa.DataType:
    """The type a key column is compared in: all integers are 64-bit, large strings are strings.

    Raises SchemaError for a type that cannot be a key.
    """
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if kind in (pa.string(), pa.binary(), pa.bool_(), pa.date32()) or pa.types.is_decimal128(kind):
        return kind
    raise SchemaError(
        f"a key column of type {kind} cannot be joined on.",
        hint="keys may be integers, strings, binary, booleans, dates, timestamps or decimals; "
        "cast the column on both sides (floating-point keys to decimal or string).",
    )


class KeyEncoder:
    """Turns key columns into a `KeyBatch`, and into shard numbers; the two sides of a join that have the
    same canonical types get the same bytes and the same shards.

    Cost: one pass per key column; a single fixed-width column is not copied more than once.
    """

    def __init__(self, types: list[pa.DataType]) -> None:
        self.types = [canonical_type(kind) for kind in types]
        self.fixed = len(self.types) == 1 and _fixed_bytes(self.types[0]) == FIXED_WIDTH_BYTES

    def encode(self, columns: list[pa.Array]) -> KeyBatch:
        columns = self._canonical(columns)
        valid = validity(columns[0])
        for column in columns[1:]:
            valid = valid & validity(column)
        if self.fixed:
            words = np.empty(len(columns[0]), np.uint64)
            kernels.order_words(_signed_words(columns[0]), words)
            return KeyBatch(prefix=words, valid=valid, fixed=True, offsets=_NO_OFFSETS, data=_NO_BYTES)
        if len(columns) == 1 and _fixed_bytes(self.types[0]) == 0:
            offsets, data = binary_parts(columns[0])
        else:
            offsets, data = self._concatenated(columns, valid)
        prefix = np.empty(len(columns[0]), np.uint64)
        kernels.prefixes(offsets, address_of(data), prefix)
        return KeyBatch(prefix=prefix, valid=valid, fixed=False, offsets=offsets, data=data)

    def shards(self, columns: list[pa.Array], count: int) -> npt.NDArray[np.int32]:
        """pmod(xxhash64(columns...), count), as Spark computes it."""
        columns = self._canonical(columns)
        hashes = np.full(len(columns[0]), SPARK_SEED, np.uint64)
        for column in columns:
            valid = validity(column)
            kind = column.type
            if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
                hashing.hash_ints(_signed_words(column), valid, hashes)
            elif _fixed_bytes(kind) == FIXED_WIDTH_BYTES:
                hashing.hash_longs(_signed_words(column), valid, hashes)
            elif pa.types.is_decimal(kind):
                hashing.hash_wide_decimals(fixed_values(column, 16).view(np.uint64), valid, hashes)
            else:
                offsets, data = binary_parts(column)
                hashing.hash_strings(offsets, address_of(data), valid, hashes)
        out = np.empty(hashes.size, np.int32)
        hashing.remainders(hashes, count, out)
        return out

    def _canonical(self, columns: list[pa.Array]) -> list[pa.Array]:
        return [
            column if column.type == kind else column.cast(kind)
            for column, kind in zip(columns, self.types, strict=True)
        ]

    def _concatenated(self, columns: list[pa.Array], valid: Bools) -> tuple[I64, npt.NDArray[np.uint8]]:
        """The parts one after the other; all but the last are self-delimiting, which keeps the order."""
        count = len(columns[0])
        lengths = np.zeros(count, np.int64)
        parts = []
        for position, (column, kind) in enumerate(zip(columns, self.types, strict=True)):
            last = position == len(columns) - 1
            width = _fixed_bytes(kind)
            if width == 0:
                offsets, data = binary_parts(column)
                kernels.add_part_lengths(offsets, address_of(data), last, valid, lengths)
                parts.append((0, last, offsets, data))
            else:
                words = fixed_values(column, 16).view(np.uint64) if width == 16 else _signed_words(column)
                lengths[valid] += width
                parts.append((width, last, words.view(np.int64), _NO_BYTES))
        offsets = offsets_from(lengths)
        out = np.empty(int(offsets[-1]), np.uint8)
        cursor = offsets[:-1].copy()
        for width, last, values, data in parts:
            if width == 0:
                kernels.put_bytes(values, address_of(data), last, valid, cursor, address_of(out))
            else:
                kernels.put_words(values, width // 8, valid, cursor, address_of(out))
        return offsets, out


def _fixed_bytes(kind: pa.DataType) -> int:
    """8 or 16 for a fixed-width key part, 0 for strings and binary."""
    if pa.types.is_decimal(kind):
        return 8 if kind.precision <= 18 else 16
    return 0 if kind in (pa.string(), pa.binary()) else 8


def _signed_words(column: pa.Array) -> I64:
    """A fixed-width key column as 64-bit numbers in the order of its values (nulls: anything)."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_date32(kind):
        return fixed_values(column, 4).view(np.int32).astype(np.int64)
    if pa.types.is_decimal(kind):
        return fixed_values(column, 16).view(np.int64)[::2].copy()
    return fixed_values(column, 8).view(np.int64)
