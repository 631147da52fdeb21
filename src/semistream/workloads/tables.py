"""A master table of customers and a skewed stream of their orders, as Arrow batches or Parquet files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from semistream.errors import ConfigError
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

KEY = "custkey"
TABLE_SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.int64(), nullable=False),
        ("name", pa.string()),
        ("address", pa.string()),
        ("nation", pa.int32()),
        ("phone", pa.string()),
        ("balance", pa.decimal128(15, 2)),
        ("segment", pa.string()),
        ("since", pa.date32()),
        ("rating", pa.float64()),
        ("note", pa.string()),
    ]
)
STREAM_SCHEMA = pa.schema(
    [pa.field(KEY, pa.int64(), nullable=False), ("amount", pa.float64()), ("quantity", pa.int32())]
)
# The bytes of the values alone, in expectation: fixed widths (a decimal(15,2) fits 8) plus the
# characters of the strings, without offsets, lengths, null bits or alignment.
TABLE_ROW_BYTES = 120
STREAM_ROW_BYTES = 20

# Part of every fingerprint: raise it when the rows made from one config change.
GENERATOR_VERSION = 1
_BLOCK_ROWS = 125_000
_CONFIG_FILE = "_config.json"
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ,", dtype=np.uint8)
_SEGMENTS = pa.array(["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"])
# The file source orders files by modification time. Fixed times make the order a part of the data,
# and keep files made on different days within the source's age limit of each other.
_FIRST_FILE_TIME_S = 1_600_000_000

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """A table of `rows` customers of about 120 bytes, keys 0, key_stride, 2 * key_stride, ...

    Four of five bytes are pseudo-random characters, so compression does not shrink the table unfairly.
    """

    rows: int
    key_stride: int = 1
    seed: int = 0
    rows_per_file: int = 1_000_000

    def __post_init__(self) -> None:
        if min(self.rows, self.key_stride, self.rows_per_file) < 1 or self.seed < 0:
            raise ConfigError(
                f"a table needs at least one row, a positive stride and file size and a seed >= 0, got {self}",
                hint="leave key_stride and rows_per_file at their defaults",
            )
        if self.rows * self.key_stride >= 1 << 63:
            raise ConfigError(f"the keys of {self} exceed 64 bits", hint="lower rows or key_stride")

    @property
    def row_bytes(self) -> int:
        return TABLE_ROW_BYTES


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """Orders of 20 bytes whose keys follow `keys`; batch b is the same wherever a stream starts.

    One micro-batch is a set of `files_per_batch` files, so that a file source with that many
    files per trigger reads exactly `batch_rows` rows a trigger, one file a core.
    """

    keys: ZipfConfig
    batch_rows: int
    batches: int
    first_batch: int = 0
    key_stride: int = 1
    files_per_batch: int = 2
    # Kept in the fingerprint: files are reused only if the generator is the one that wrote them.
    generator: int = field(default=GENERATOR_VERSION)

    def __post_init__(self) -> None:
        sizes = (self.batch_rows, self.batches, self.key_stride, self.files_per_batch)
        if min(sizes) < 1 or self.first_batch < 0 or self.batch_rows < self.files_per_batch:
            raise ConfigError(
                f"a stream needs positive sizes and a row for every file, got {self}",
                hint="pass batch_rows >= files_per_batch and batches >= 1",
            )


def table_batches(
    config: TableConfig, *, first_row: int = 0, rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The table's rows in key order, in batches of at most 125,000 rows; one batch is held at a time.

    `first_row` must be a multiple of 125,000, or zero; blocks are seeded one by one.
    """
    end = config.rows if rows is None else min(config.rows, first_row + rows)
    if first_row % _BLOCK_ROWS:
        raise ConfigError(
            f"first_row must be a multiple of {_BLOCK_ROWS}, got {first_row}", hint="start at 0 and skip rows"
        )
    for start in range(first_row, end, _BLOCK_ROWS):
        yield _table_block(config, start // _BLOCK_ROWS).slice(0, end - start)


def stream_batch(config: StreamConfig, keys: ZipfKeys, batch: int) -> pa.RecordBatch:
    """Batch number `batch`, counted from the stream's own zero (not from `first_batch`)."""
    random = _random(config.keys.seed, 2, batch)
    drawn = keys.keys(batch=batch, rows=config.batch_rows) * config.key_stride
    columns = [
        pa.array(drawn),
        pa.array(random.random(config.batch_rows) * 1000.0),
        pa.array(random.integers(1, 51, config.batch_rows, dtype=np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=STREAM_SCHEMA)


def write_table(config: TableConfig, directory: Path, *, threads: int = 2) -> list[Path]:
    """Write the table as Parquet files and return them; files of the same config are reused.

    At most one block of 125,000 rows a thread is in memory. A directory is complete when its config
    file is there, which is written last; anything else found is removed and written again.
    """
    blocks_per_file = -(-config.rows_per_file // _BLOCK_ROWS)
    rows_per_file = blocks_per_file * _BLOCK_ROWS

    def write(number: int) -> None:
        with pq.ParquetWriter(
            _part(directory, number), TABLE_SCHEMA, store_decimal_as_integer=True
        ) as writer:
            for block in table_batches(config, first_row=number * rows_per_file, rows=rows_per_file):
                writer.write_batch(block)

    fingerprint = asdict(config) | {"generator": GENERATOR_VERSION}
    return _write_files(directory, fingerprint, -(-config.rows // rows_per_file), write, threads)


def write_stream(config: StreamConfig, directory: Path, *, threads: int = 2) -> list[list[Path]]:
    """Write the stream and return the file set of each micro-batch; files of the same config are reused.

    Modification times rise with the batch number, one millisecond a file.
    """
    keys = ZipfKeys(config.keys)
    per_batch = config.files_per_batch

    def write(number: int) -> None:
        batch = config.first_batch + number
        rows = stream_batch(config, keys, batch)
        cuts = [config.batch_rows * i // per_batch for i in range(per_batch + 1)]
        for i in range(per_batch):
            path = _part(directory, number * per_batch + i)
            piece = pa.Table.from_batches([rows.slice(cuts[i], cuts[i + 1] - cuts[i])])
            # Drawn keys and random amounts have no small dictionary.
            pq.write_table(piece, path, use_dictionary=False)
            time_ns = _FIRST_FILE_TIME_S * 10**9 + (batch * per_batch + i) * 10**6
            os.utime(path, ns=(time_ns, time_ns))

    _write_files(directory, asdict(config), config.batches, write, threads)
    files = [_part(directory, number) for number in range(config.batches * per_batch)]
    return [files[at : at + per_batch] for at in range(0, len(files), per_batch)]


def _write_files(
    directory: Path, fingerprint: dict[str, object], jobs: int, write: Callable[[int], None], threads: int
) -> list[Path]:
    marker = directory / _CONFIG_FILE
    text = json.dumps(fingerprint, sort_keys=True)
    if not (marker.is_file() and marker.read_text() == text):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(write, range(jobs)):
                pass
        marker.write_text(text)
    return sorted(directory.glob("*.parquet"))


def _part(directory: Path, number: int) -> Path:
    return directory / f"part-{number:07d}.parquet"


def _random(*seed: int) -> np.random.Generator:
    # SFC64 is the fastest of NumPy's generators, and these bytes are most of the work.
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(list(seed))))


def _table_block(config: TableConfig, block: int) -> pa.RecordBatch:
    random = _random(config.seed, 1, block)
    n = min(_BLOCK_ROWS, config.rows - block * _BLOCK_ROWS)
    keys = (np.arange(n, dtype=np.int64) + block * _BLOCK_ROWS) * config.key_stride
    cents = random.integers(-99_999, 999_999, n, dtype=np.int64)
    columns = {
        KEY: pa.array(keys),
        "name": _fixed_strings(_digits("Customer#000000000", keys)),
        "address": _random_strings(random, random.integers(20, 41, n)),
        "nation": pa.array(random.integers(0, 25, n, dtype=np.int32)),
        "phone": _fixed_strings(_digits("00-000-000-0000", random.integers(0, 10**12, n))),
        "balance": _cents_to_decimal(cents),
        "segment": _SEGMENTS.take(pa.array(random.integers(0, len(_SEGMENTS), n, dtype=np.int8))),
        "since": pa.array(random.integers(7_300, 20_000, n, dtype=np.int32)).cast(pa.date32()),
        "rating": pa.array(random.random(n)),
        "note": _random_strings(random, np.full(n, 16, dtype=np.int64)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in TABLE_SCHEMA.names], schema=TABLE_SCHEMA)


def _digits(pattern: str, numbers: NDArray[np.int64]) -> Bytes:
    """One row of characters per number: the pattern with its zeros replaced by the number's last digits."""
    out = np.tile(np.frombuffer(pattern.encode(), dtype=np.uint8), (numbers.size, 1))
    rest = numbers
    for at in reversed([i for i, c in enumerate(pattern) if c == "0"]):
        rest, digit = np.divmod(rest, 10)
        out[:, at] = digit + ord("0")
    return out


def _fixed_strings(characters: Bytes) -> pa.Array:
    n, width = characters.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32)
    return _strings(offsets, characters)


def _random_strings(random: np.random.Generator, lengths: NDArray[np.int64]) -> pa.Array:
    offsets = np.zeros(lengths.size + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    drawn = np.frombuffer(random.bytes(int(offsets[-1])), dtype=np.uint8)
    return _strings(offsets, _ALPHABET[drawn & 63])


def _strings(offsets: NDArray[np.int32], characters: Bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(characters))]
    return pa.Array.from_buffers(pa.string(), offsets.size - 1, buffers)


def _cents_to_decimal(cents: NDArray[np.int64]) -> pa.Array:
    """Reinterpret cents as decimal(15,2): Arrow keeps 128 bits, low word first."""
    words = np.empty((cents.size, 2), dtype=np.int64)
    words[:, 0] = cents
    words[:, 1] = cents >> 63
    return pa.Array.from_buffers(pa.decimal128(15, 2), cents.size, [None, pa.py_buffer(words)])
