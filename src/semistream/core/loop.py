"""The one loop that every algorithm of the family is.

stream batch --> front stage --hit--> output
                    | miss
                    v
               waiting room <-- access path reads pages of R, matches all who wait
                                     | frequency of every matched key
                                     v
                                front stage admits / evicts
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.core import _loop_kernels as kernels
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import (
    I64,
    AccessPath,
    Answers,
    ChunkLimit,
    FrontStage,
    JoinKind,
    Matches,
    Pairs,
    Waiting,
    WaitingRoom,
)
from semistream.core.keys import KeyEncoder
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout


@dataclass(frozen=True, kw_only=True)
class JoinShape:
    """What is joined, independent of how: the stream's key columns, the table's output columns."""

    kind: JoinKind
    key_positions: tuple[int, ...]
    value_positions: tuple[int, ...]  # of the table's value columns, in output order
    output_schema: pa.Schema
    shards: int

    @property
    def value_fields(self) -> list[pa.Field]:
        """The table's part of the output."""
        return list(self.output_schema)[len(self.output_schema) - len(self.value_positions) :]


class SemiStreamJoin:
    """Joins batches of a stream with the master table that the access path reads.

    Guarantee: the bag of rows that `push` and `flush` yield equals the plain join's; after `flush` nobody
    waits. Memory: what the parts reserved from `budget`, and the output batch being made, of at most
    `output_bytes` (or one row). Output batches are yielded as soon as they exist; the caller must consume them in turn.
    """

    def __init__(
        self,
        shape: JoinShape,
        *,
        encoder: KeyEncoder,
        front_stage: FrontStage,
        waiting_room: WaitingRoom,
        access_path: AccessPath,
        budget: MemoryBudget,
        metrics: JoinMetrics,
        output_bytes: int,
    ) -> None:
        self._shape, self._encoder, self._kind = shape, encoder, shape.kind
        self._front, self._room, self._path = front_stage, waiting_room, access_path
        self.budget, self.metrics = budget, metrics
        self._output_bytes = output_bytes
        self._matched_before = 0
        self._schemas: tuple[pa.Schema, pa.Schema] | None = None

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a stream batch; yields what can be answered now."""
        if batch.num_rows == 0:
            return
        columns = [batch.column(position) for position in self._shape.key_positions]
        keys = self._encoder.encode(columns)
        answers = self._front.probe(keys)
        yield from self._emit_hits(batch, answers)
        index = np.empty(batch.num_rows, np.int64)
        index = index[: kernels.select_misses(answers.entries, index)]
        misses = batch.take(pa.array(index))
        columns = [misses.column(position) for position in self._shape.key_positions]
        shards = self._encoder.shards(columns, self._shape.shards)
        taken = self._room.put(misses, keys.take(index), shards)
        self._count_arrivals(answers, taken)
        if taken == misses.num_rows:
            return
        # Those who found no room ask again after the drain, which may have brought their keys to the front
        # stage; as many at a time as the room holds, so that hardly anyone has to ask a third time.
        step = self._room.count
        yield from self.flush()
        for start in range(taken, misses.num_rows, step):
            yield from self.push(misses.slice(start, step))

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Drains the waiting room: everyone who waits is matched, or proven to have no match."""
        waiting = self._room.take()
        if waiting is None:
            return
        self.metrics.drains += 1
        rows = _PathRows(self._path.layout, self._shape.value_positions)
        for matches in self._path.fetch(waiting):
            yield from self._emit_matches(waiting, matches, rows)
            self._front.admit(waiting, matches, rows)
            self._count_served(waiting, matches)
        self._front.adapt()

    def check_invariants(self) -> None:
        self.metrics.check_invariants()
        self.budget.check_invariants()
        self._room.check_invariants()
        assert self.metrics.rows_waiting == self._room.count

    # -- inside ------------------------------------------------------------------------------------------

    def _emit_hits(self, batch: pa.RecordBatch, answers: Answers) -> Iterator[pa.RecordBatch]:
        layout, limit = self._front.layout, ChunkLimit.of(self._output_bytes, batch)
        for pairs in self._front.pairs(answers, self._kind, limit):
            yield self._output(batch, pairs, layout.decode(pairs.row_at) if self._kind.needs_rows else [])

    def _emit_matches(self, waiting: Waiting, matches: Matches, rows: _PathRows) -> Iterator[pa.RecordBatch]:
        kind, state = self._kind, np.zeros(4, np.int64)
        limit = ChunkLimit.of(self._output_bytes, waiting.rows)
        before = self._matched_before if matches.continued else 0
        while state[0] < matches.counts.size:
            index, row_at = np.empty(limit.pairs, np.int64), np.empty(limit.pairs, np.int64)
            filled = kernels.pairs_of_matches(
                waiting.order, waiting.starts, matches.first_key, matches.counts, matches.row_at,
                before, matches.unfinished, *self._path.layout.kernel_shape,
                kind.every_match, kind.once, kind.absent, limit.pair_bytes, limit.bytes, state, index, row_at,
            )  # fmt: skip
            if filled:
                pairs = Pairs(stream_index=index[:filled], row_at=row_at[:filled])
                yield self._output(waiting.rows, pairs, rows.decode(pairs.row_at) if kind.needs_rows else [])

    def _output(self, batch: pa.RecordBatch, pairs: Pairs, values: list[pa.Array]) -> pa.RecordBatch:
        index = pairs.stream_index
        self.metrics.rows_out += index.size
        whole = index.size == batch.num_rows and kernels.is_identity(index)
        stream = batch if whole else batch.take(pa.array(index))
        return pa.RecordBatch.from_arrays([*stream.columns, *values], schema=self._schema_of(batch.schema))

    def _schema_of(self, stream: pa.Schema) -> pa.Schema:
        """The output's schema, with the types that the stream's batches have: their time zone or offset
        width may differ."""
        if self._schemas is None or not self._schemas[0].equals(stream):
            names = self._shape.output_schema.names
            own = [field.with_name(name) for field, name in zip(stream, names, strict=False)]
            self._schemas = (stream, pa.schema([*own, *self._shape.value_fields]))
        return self._schemas[1]

    def _count_arrivals(self, answers: Answers, taken: int) -> None:
        """Everyone who was answered, and those who wait now; the others will ask again."""
        metrics = self.metrics
        metrics.rows_in += answers.present + answers.absent + answers.nulls + taken
        metrics.hits += answers.present + answers.absent
        metrics.negative_hits += answers.absent
        metrics.misses += taken
        metrics.null_keys += answers.nulls
        metrics.rows_matched += answers.present
        metrics.rows_unmatched += answers.absent + answers.nulls
        metrics.rows_waiting += taken

    def _count_served(self, waiting: Waiting, matches: Matches) -> None:
        before = self._matched_before if matches.continued else 0
        matched, unmatched = kernels.count_served(
            waiting.starts, matches.first_key, matches.counts, before, matches.unfinished
        )
        only_key = matches.counts.size == 1
        self._matched_before = 0
        if matches.unfinished:
            self._matched_before = int(matches.counts[-1]) + (before if only_key else 0)
        self.metrics.rows_matched += matched
        self.metrics.rows_unmatched += unmatched
        self.metrics.rows_waiting -= matched + unmatched


class _PathRows:
    """`MasterRows` of an access path: the chosen columns of full rows."""

    def __init__(self, layout: RowLayout, positions: tuple[int, ...]) -> None:
        self._layout, self._positions = layout, positions

    def decode(self, row_at: I64) -> list[pa.Array]:
        return self._layout.decode(row_at, self._positions)

    def sizes(self, row_at: I64) -> I64:
        return self._layout.sizes_at(row_at)
