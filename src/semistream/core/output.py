"""Output rows on their way out: pairs of a stream row and a master row become record batches.

Many pairs at once are put together where they are. The few pairs of a small step are kept, with copies of their
master rows, until there are enough: putting a record batch together costs as much as some hundred rows of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.core import _loop_kernels as kernels
from semistream.core.arrow import address_of
from semistream.core.contracts import (
    CHUNK_PAIRS_MAX,
    I64,
    PAIR_BYTES,
    ChunkLimit,
    JoinKind,
    Matches,
    StreamRows,
)
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout

AT_ONCE_PAIRS = 512  # as many are worth a record batch of their own
KEPT = kernels.KEPT
KEPT_SHARE = 1 / 4  # of the output's bytes


@dataclass(frozen=True, kw_only=True)
class JoinColumns:
    """`MasterRows`: reads the join's columns out of rows in some layout, which may hold more."""

    layout: RowLayout
    positions: tuple[int, ...]

    def decode(self, row_at: I64) -> list[pa.Array]:
        return self.layout.decode(row_at, self.positions)

    def sizes(self, row_at: I64) -> I64:
        return self.layout.sizes_at(row_at)


@dataclass(kw_only=True, eq=False, slots=True)
class _Run:
    """Kept pairs start..stop-1, which came one after the other from the same source."""

    rows: StreamRows
    columns: JoinColumns
    start: int
    stop: int


class Output:
    """Turns pairs into record batches, whose stream columns come first.

    Memory: `limit_bytes`, or one output row if that is larger. Addresses need to hold only for the call that
    brings them; stream rows must last until `flush`.
    """

    def __init__(
        self,
        names: list[str],
        value_fields: list[pa.Field],
        *,
        kind: JoinKind,
        limit_bytes: int,
        metrics: JoinMetrics,
    ) -> None:
        self._names, self._value_fields, self._kind = names, value_fields, kind
        self._kept_bytes_max = int(limit_bytes * KEPT_SHARE)
        self._chunk_bytes = limit_bytes - self._kept_bytes_max
        self._metrics = metrics
        pairs_max = min(CHUNK_PAIRS_MAX, self._kept_bytes_max // PAIR_BYTES)
        self._index, self._row_at = np.empty(pairs_max, np.int64), np.empty(pairs_max, np.int64)
        with_values = bool(kind.needs_rows and value_fields)
        self._memory = np.empty(self._kept_bytes_max if with_values else 0, np.uint8)
        self._memory_at = address_of(self._memory) if with_values else 0
        self._state = np.zeros(
            3, np.int64
        )  # pairs kept, bytes of their master rows, and of their stream rows
        self._runs: list[_Run] = []
        self._schemas: tuple[pa.Schema, pa.Schema] | None = None

    def limit(self, rows: StreamRows) -> ChunkLimit:
        """How many pairs may be given at a time."""
        return ChunkLimit(bytes=self._chunk_bytes, pair_bytes=rows.pair_bytes)

    def add(
        self, rows: StreamRows, index: I64, columns: JoinColumns, row_at: I64
    ) -> Iterator[pa.RecordBatch]:
        """Output rows: stream row index[i] of `rows` beside the master row at row_at[i] (0: without one)."""
        if index.size == 0:
            return
        if index.size <= AT_ONCE_PAIRS:
            if self._keep(rows, index, columns, row_at):
                return
            yield from self.flush()
            if self._keep(rows, index, columns, row_at):
                return
        yield self._batch(rows, index, columns, row_at)

    def keep_matches(self, matches: Matches, columns: JoinColumns) -> tuple[int, int, int]:
        """Keeps all output rows of some matches if they are few and there is room for them.

        Returns whether they are KEPT, and of the stream rows that leave, how many have had a match and how many have
        not; if they are not kept, `add_matches` is to be called with what was found.
        """
        waiting, kind = matches.waiting, self._kind
        found, matched, unmatched = kernels.keep_matches(
            waiting.order, waiting.starts, matches.first_key, matches.counts, matches.row_at,
            matches.before, matches.leaving, *columns.layout.kernel_shape,
            kind.every_match, kind.once, kind.absent, waiting.rows.pair_bytes, AT_ONCE_PAIRS,
            self._kept_bytes_max, self._memory_at, self._state, self._index, self._row_at,
        )  # fmt: skip
        if found == KEPT:
            self._note(waiting.rows, columns)
        return found, matched, unmatched

    def add_matches(self, matches: Matches, columns: JoinColumns, found: int) -> Iterator[pa.RecordBatch]:
        """The output rows of matches that were not kept."""
        if found == kernels.FULL:
            yield from self.flush()
            if self.keep_matches(matches, columns)[0] == KEPT:
                return
        kind, waiting, state = self._kind, matches.waiting, np.zeros(4, np.int64)
        limit = self.limit(waiting.rows)
        while state[0] < matches.counts.size:
            index, row_at = np.empty(limit.pairs, np.int64), np.empty(limit.pairs, np.int64)
            filled = kernels.pairs_of_matches(
                waiting.order, waiting.starts, matches.first_key, matches.counts, matches.row_at,
                matches.before, matches.leaving, *columns.layout.kernel_shape,
                kind.every_match, kind.once, kind.absent, limit.pair_bytes, limit.bytes, state, index, row_at,
            )  # fmt: skip
            if filled:
                yield self._batch(waiting.rows, index[:filled], columns, row_at[:filled])

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Everything that is kept; afterwards the stream rows are not needed any more."""
        runs, self._runs = self._runs, []
        self._state[:] = 0
        while runs:
            rows, columns = runs[0].rows, runs[0].columns
            same = [run for run in runs if run.rows is rows and run.columns is columns]
            runs = [run for run in runs if run.rows is not rows or run.columns is not columns]
            index = np.concatenate([self._index[run.start : run.stop] for run in same])
            row_at = np.concatenate([self._row_at[run.start : run.stop] for run in same])
            yield self._batch(rows, index, columns, row_at)

    # -- inside ------------------------------------------------------------------------------------------

    def _keep(self, rows: StreamRows, index: I64, columns: JoinColumns, row_at: I64) -> bool:
        is_kept: bool = kernels.keep_pairs(
            index, row_at, *columns.layout.kernel_shape, rows.pair_bytes,
            self._kept_bytes_max, self._memory_at, self._state, self._index, self._row_at,
        )  # fmt: skip
        if is_kept:
            self._note(rows, columns)
        return is_kept

    def _note(self, rows: StreamRows, columns: JoinColumns) -> None:
        """What was kept just now came from there."""
        runs, stop = self._runs, int(self._state[0])
        if runs and runs[-1].rows is rows and runs[-1].columns is columns:
            runs[-1].stop = stop
        elif stop > (start := runs[-1].stop if runs else 0):
            runs.append(_Run(rows=rows, columns=columns, start=start, stop=stop))

    def _batch(self, rows: StreamRows, index: I64, columns: JoinColumns, row_at: I64) -> pa.RecordBatch:
        self._metrics.rows_out += index.size
        stream = rows.take(index)
        values = columns.decode(row_at) if self._kind.needs_rows else []
        return pa.RecordBatch.from_arrays([*stream.columns, *values], schema=self._schema_of(stream.schema))

    def _schema_of(self, stream: pa.Schema) -> pa.Schema:
        """The output's schema, with the types that the stream's batches have: their time zone or offset
        width may differ."""
        if self._schemas is None or not self._schemas[0].equals(stream):
            own = [field.with_name(name) for field, name in zip(stream, self._names, strict=False)]
            self._schemas = (stream, pa.schema([*own, *self._value_fields]))
        return self._schemas[1]
