"""Master tables and streams of a wanted row size, every row a function of its number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from semistream.errors import ConfigError
from semistream.workloads._row_kernels import fill_characters, uniform_below
from semistream.workloads.contracts import KeyReader, KeySource, RowFunction
from semistream.workloads.zipf import KEYS_MAX, Int64s, ZipfConfig, ZipfKeys

KEY = "key"
TABLE_SCHEMA = pa.schema(
    [pa.field(KEY, pa.int64(), nullable=False), ("copy", pa.int32()), ("payload", pa.string())]
)
STREAM_SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        ("note", pa.string()),
    ]
)
# The values without offsets, null bits or alignment, as the papers count them.
TABLE_FIXED_BYTES, STREAM_FIXED_BYTES = 12, 16
ROW_BYTES_MAX = 1 << 20
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", dtype=np.uint8)

Order = Literal["sorted", "shuffled"]
Repetition = Literal["exact", "random"]


@dataclass(frozen=True, kw_only=True)
class MasterConfig:
    """A master table: `keys` join values 0, key_stride, 2 * key_stride, ... and keys * rows_per_key rows.

    Parameters
    ----------
    keys: how many join values there are to choose from.
    rows_per_key: rows with the same join value; their column `copy` counts them where repetition is exact.
    row_bytes: bytes of a row's values; 120 is the papers' row.
    repetition: "exact" gives every key exactly rows_per_key rows; "random" draws the key of every row at
        random with repetition (paper 003, section 4.1): some keys have more rows, some none.
    order: "sorted" by key, or "shuffled". Rows of random repetition have no order anyway.
    key_stride: the distance of neighbouring keys; with 2, every odd number is a key that the table lacks.
    """

    keys: int
    rows_per_key: int = 1
    row_bytes: int = 120
    repetition: Repetition = "exact"
    order: Order = "sorted"
    key_stride: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.keys <= KEYS_MAX and self.rows_per_key >= 1 and self.rows <= KEYS_MAX):
            raise ConfigError(
                f"a table needs 1 to 2^40 keys and rows, got keys={self.keys}, rows_per_key={self.rows_per_key}",
                hint="a table of 10 million rows with 4 rows per key has keys=2_500_000, rows_per_key=4",
            )
        if self.key_stride < 1 or self.keys * self.key_stride >= 1 << 63:
            raise ConfigError(f"key_stride={self.key_stride} leads to keys above 64 bits", hint="use 1 or 2")
        check_choice("repetition", self.repetition, ("exact", "random"))
        check_choice("order", self.order, ("sorted", "shuffled"))
        check_row_bytes("row_bytes", self.row_bytes, TABLE_FIXED_BYTES)
        check_seed(self.seed)

    @property
    def rows(self) -> int:
        return self.keys * self.rows_per_key


class MasterRows:
    """The rows of a `MasterConfig`: any of them, in any order, without the others.

    >>> table = MasterRows(MasterConfig(keys=1_000_000_000))
    >>> table.take(np.array([999_999_999])).num_rows
    1
    """

    def __init__(self, config: MasterConfig) -> None:
        self.config = config
        # A bijection on the row numbers: what scatters Zipf's ranks also shuffles rows.
        self._places = ZipfKeys(ZipfConfig(keys=config.rows, exponent=0.0, seed=config.seed))

    @property
    def source(self) -> RowFunction:
        return RowFunction(
            schema=TABLE_SCHEMA,
            rows=self.config.rows,
            read=lambda first, rows: self.take(np.arange(first, first + rows, dtype=np.int64)),
        )

    def keys(self, rows: Int64s) -> Int64s:
        """The join value of every row number."""
        return self._key_and_copy(rows)[0]

    def take(self, rows: Int64s) -> pa.RecordBatch:
        """The rows with these numbers, 0 .. config.rows-1."""
        key, copy = self._key_and_copy(rows)
        payload = characters(rows, self.config.row_bytes - TABLE_FIXED_BYTES, seed=self.config.seed)
        return pa.RecordBatch.from_arrays(
            [pa.array(key), pa.array(copy.astype(np.int32)), payload], schema=TABLE_SCHEMA
        )

    def _key_and_copy(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        config = self.config
        if config.repetition == "random":
            number = np.empty(rows.size, dtype=np.int64)
            uniform_below(rows, config.keys, config.seed, number)
            return number * config.key_stride, np.zeros(rows.size, dtype=np.int64)
        place = rows if config.order == "sorted" else self._places.keys_of(rows)
        number, copy = np.divmod(place, config.rows_per_key)
        return number * config.key_stride, copy


@dataclass(frozen=True, kw_only=True)
class StreamRows:
    """A stream without end: keys from `keys`, the row's number in `seq`, and a note up to `row_bytes` bytes.

    The numbers let a reader of a join's output see that no row was lost or doubled.
    """

    keys: KeySource
    row_bytes: int = 20
    seed: int = 0
    _reader: KeyReader = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_row_bytes("stream_row_bytes", self.row_bytes, STREAM_FIXED_BYTES)
        check_seed(self.seed)
        object.__setattr__(self, "_reader", KeyReader(self.keys))

    @property
    def source(self) -> RowFunction:
        return RowFunction(schema=STREAM_SCHEMA, rows=None, read=self.read)

    def read(self, first: int, rows: int) -> pa.RecordBatch:
        numbers = np.arange(first, first + rows, dtype=np.int64)
        note = characters(numbers, self.row_bytes - STREAM_FIXED_BYTES, seed=self.seed)
        return pa.RecordBatch.from_arrays(
            [pa.array(self._reader.read(first, rows)), pa.array(numbers), note], schema=STREAM_SCHEMA
        )


def characters(rows: Int64s, width: int, *, seed: int) -> pa.Array:
    """A string of `width` pseudo-random characters for every row number: compression gains a quarter at most."""
    # Arrow counts the bytes of a string column in 32 bits.
    if rows.size * width >= 1 << 31:
        raise ConfigError(
            f"{rows.size:,} rows with {width:,} characters each do not fit one batch",
            hint="ask for smaller batches",
        )
    out = np.empty(rows.size * width, dtype=np.uint8)
    fill_characters(rows, width, seed, _ALPHABET, out)
    offsets = (
        np.arange(0, (rows.size + 1) * width, width, dtype=np.int32)
        if width
        else np.zeros(rows.size + 1, np.int32)
    )
    return pa.Array.from_buffers(pa.string(), rows.size, [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def check_row_bytes(name: str, row_bytes: int, fixed_bytes: int) -> None:
    if not fixed_bytes <= row_bytes <= ROW_BYTES_MAX:
        raise ConfigError(
            f"{name} must lie between {fixed_bytes} and {ROW_BYTES_MAX}, got {row_bytes}",
            hint=f"{fixed_bytes} bytes are taken by the columns of fixed width",
        )


def check_seed(seed: int) -> None:
    if not 0 <= seed < 1 << 63:
        raise ConfigError(f"the seed must lie between 0 and 2^63-1, got {seed}", hint="use 0, 1, 2, ...")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name}={value!r} is unknown", hint=f"choose one of {', '.join(choices)}")
