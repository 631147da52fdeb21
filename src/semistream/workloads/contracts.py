"""What every workload is: a stream and a master table, each a source of rows that is never all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from semistream.errors import ConfigError
from semistream.workloads.zipf import Int64s

# Keys are drawn in blocks of this many rows, each with a seed of its own; what a reader asks for is cut
# out of them. A part of what a config means: another number would make other rows of the same config.
BLOCK_ROWS = 16_384


class RowSource(Protocol):
    """Rows in a fixed order, cut into batches of any size.

    Row number r is the same however the rows are cut and wherever reading starts. At most a batch, and
    what a source needs to make it, is in memory; a batch handed out is the caller's.
    """

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def rows(self) -> int | None:
        """How many rows there are, or None: without end, or not known before they are read."""
        ...

    def batches(self, rows: int, *, first: int = 0) -> Iterator[pa.RecordBatch]:
        """Batches of exactly `rows` rows from row `first` on; only the last one may be shorter."""
        ...


class KeySource(Protocol):
    """Draws the keys of a stream; `ZipfKeys` is one.

    `keys(batch=b, rows=n)` are the keys of rows b*n .. b*n+n-1, and depend on the seed, b and n alone.
    """

    def keys(self, *, batch: int, rows: int) -> Int64s: ...


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A stream to be joined with a master table, and the columns to join on."""

    stream: RowSource
    table: RowSource
    stream_key: str
    table_key: str


@dataclass(frozen=True, kw_only=True)
class RowFunction:
    """A `RowSource` whose rows are a function of their numbers: `read(first, rows)` makes them."""

    schema: pa.Schema
    rows: int | None
    read: Callable[[int, int], pa.RecordBatch]

    def batches(self, rows: int, *, first: int = 0) -> Iterator[pa.RecordBatch]:
        at = checked_start(rows, first)
        while self.rows is None or at < self.rows:
            count = rows if self.rows is None else min(rows, self.rows - at)
            yield self.read(at, count)
            at += count


class KeyReader:
    """Reads a `KeySource` from any row on, in pieces of any size; remembers the block it read last."""

    def __init__(self, source: KeySource) -> None:
        self._source = source
        self._last: tuple[int, Int64s] | None = None

    def read(self, first: int, rows: int) -> Int64s:
        """The keys of rows first .. first+rows-1."""
        out = np.empty(rows, dtype=np.int64)
        filled = 0
        while filled < rows:
            number, start = divmod(first + filled, BLOCK_ROWS)
            piece = self._block(number)[start : start + rows - filled]
            out[filled : filled + piece.size] = piece
            filled += piece.size
        return out

    def _block(self, number: int) -> Int64s:
        last = self._last
        if last is None or last[0] != number:
            last = number, self._source.keys(batch=number, rows=BLOCK_ROWS)
            self._last = last
        return last[1]


class Cutter:
    """Cuts batches as they come into batches as they are wanted; holds what is left of one of them."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = batches
        self._rest = pa.RecordBatch.from_pylist([], schema=schema)

    def take(self, rows: int) -> pa.RecordBatch:
        """The next `rows` rows; fewer, or none, only where there are no more."""
        pieces, wanted = [self._rest.slice(0, rows)], rows - self._rest.num_rows
        self._rest = self._rest.slice(rows)
        while wanted > 0:
            batch = next(self._batches, None)
            if batch is None:
                break
            pieces.append(batch.slice(0, wanted))
            self._rest = batch.slice(wanted)
            wanted -= batch.num_rows
        kept = [piece for piece in pieces if piece.num_rows]
        return kept[0] if len(kept) == 1 else pa.concat_batches(kept or pieces[:1])

    def skip(self, rows: int) -> None:
        """Leaves out `rows` rows, or all there are."""
        while rows > 0:
            taken = self.take(min(rows, BLOCK_ROWS)).num_rows
            if not taken:
                return
            rows -= taken

    def all(self, rows: int) -> Iterator[pa.RecordBatch]:
        """What is left, in batches of `rows` rows."""
        while (batch := self.take(rows)).num_rows:
            yield batch


def checked_start(rows: int, first: int) -> int:
    """`first`, if both numbers make sense."""
    if rows < 1 or first < 0:
        raise ConfigError(
            f"batches need at least one row and a first row >= 0, got rows={rows}, first={first}",
            hint="pass rows=100_000, for example, and first=0",
        )
    return first


def random_generator(*seed: int) -> np.random.Generator:
    """The generator of one block of one thing: the same numbers on every machine."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(list(seed))))
