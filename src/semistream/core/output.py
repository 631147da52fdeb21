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
from semistream.core.contracts import I64, ChunkLimit, StreamRows
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout

AT_ONCE_PAIRS = 512  # as many are worth a record batch of their own
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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Kept:
    rows: StreamRows
    columns: JoinColumns
    index: I64
    row_at: I64


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
        with_values: bool,
        limit_bytes: int,
        metrics: JoinMetrics,
    ) -> None:
        self._names, self._value_fields, self._with_values = names, value_fields, with_values
        self._kept_bytes_max = int(limit_bytes * KEPT_SHARE)
        self._chunk_bytes = limit_bytes - self._kept_bytes_max
        self._metrics = metrics
        self._memory: np.ndarray | None = None
        self._kept: list[_Kept] = []
        self._used_bytes = self._pair_bytes = 0
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
        if index.size < AT_ONCE_PAIRS:
            if self._keep(rows, index, columns, row_at):
                return
            yield from self.flush()
            if self._keep(rows, index, columns, row_at):
                return
        yield self._batch(rows, index, columns, row_at)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Everything that is kept; afterwards the stream rows are not needed any more."""
        kept, self._kept = self._kept, []
        self._used_bytes = self._pair_bytes = 0
        while kept:
            first = kept[0]
            same = [each for each in kept if each.rows is first.rows and each.columns is first.columns]
            kept = [each for each in kept if each.rows is not first.rows or each.columns is not first.columns]
            index = np.concatenate([each.index for each in same])
            yield self._batch(
                first.rows, index, first.columns, np.concatenate([each.row_at for each in same])
            )

    # -- inside ------------------------------------------------------------------------------------------

    def _keep(self, rows: StreamRows, index: I64, columns: JoinColumns, row_at: I64) -> bool:
        pair_bytes = int(rows.pair_bytes[index].sum())
        if self._pair_bytes + pair_bytes > self._kept_bytes_max:
            return False
        copies = np.zeros(index.size, np.int64)
        if self._with_values and self._value_fields:
            if self._memory is None:
                self._memory = np.empty(self._kept_bytes_max, np.uint8)
            free = self._kept_bytes_max - self._used_bytes
            used = kernels.copy_rows(
                row_at,
                *columns.layout.kernel_shape,
                address_of(self._memory) + self._used_bytes,
                free,
                copies,
            )
            if used < 0:
                return False
            self._used_bytes += int(used)
        self._pair_bytes += pair_bytes
        # A copy: what is kept must not hold the much larger array that it is the beginning of.
        self._kept.append(_Kept(rows=rows, columns=columns, index=index.copy(), row_at=copies))
        return True

    def _batch(self, rows: StreamRows, index: I64, columns: JoinColumns, row_at: I64) -> pa.RecordBatch:
        self._metrics.rows_out += index.size
        stream = rows.take(index)
        values = columns.decode(row_at) if self._with_values else []
        return pa.RecordBatch.from_arrays([*stream.columns, *values], schema=self._schema_of(stream.schema))

    def _schema_of(self, stream: pa.Schema) -> pa.Schema:
        """The output's schema, with the types that the stream's batches have: their time zone or offset
        width may differ."""
        if self._schemas is None or not self._schemas[0].equals(stream):
            own = [field.with_name(name) for field, name in zip(stream, self._names, strict=False)]
            self._schemas = (stream, pa.schema([*own, *self._value_fields]))
        return self._schemas[1]
