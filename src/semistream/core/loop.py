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
    AccessPath,
    Answers,
    Arrivals,
    BatchRows,
    FrontStage,
    JoinKind,
    Matches,
    WaitingRoom,
)
from semistream.core.departures import Departures, Unobserved
from semistream.core.keys import KeyEncoder
from semistream.core.metrics import JoinMetrics
from semistream.core.output import KEPT, JoinColumns, Output


@dataclass(frozen=True, kw_only=True)
class JoinShape:
    """What is joined, independent of how: the stream's key columns, the table's output columns."""

    kind: JoinKind
    key_positions: tuple[int, ...]
    value_positions: tuple[int, ...]  # of the table's value columns, in output order
    output_schema: pa.Schema
    shards: int

    @property
    def stream_schema(self) -> pa.Schema:
        """The stream's part of the output."""
        return pa.schema(list(self.output_schema)[: len(self.output_schema) - len(self.value_positions)])

    @property
    def value_fields(self) -> list[pa.Field]:
        """The table's part of the output."""
        return list(self.output_schema)[len(self.output_schema) - len(self.value_positions) :]


class Incoming:
    """A stream batch on its way in: the rows from `at` on have not been asked about yet."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals, self.rows, self.at = arrivals, BatchRows(arrivals.batch), 0

    @property
    def left(self) -> int:
        return self.arrivals.batch.num_rows - self.at


class SemiStreamJoin:
    """Joins batches of a stream with the master table that the access path reads.

    Guarantee: the bag of rows that `push` and `flush` yield equals the plain join's; after `flush` nobody
    waits. Memory: what the parts reserved from `budget`, and the output batch being made, of at most
    `output_bytes` (or one row). Output batches are yielded as soon as they exist; the caller must consume them
    in turn.
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
        departures: Departures | None = None,
    ) -> None:
        self._shape, self._encoder, self._kind = shape, encoder, shape.kind
        self._front, self._room, self._path = front_stage, waiting_room, access_path
        self.budget, self.metrics = budget, metrics
        self._departures = departures or Unobserved()
        self._output = Output(
            shape.output_schema.names,
            shape.value_fields,
            kind=shape.kind,
            limit_bytes=output_bytes,
            metrics=metrics,
        )
        cached = tuple(range(len(front_stage.layout.schema)))
        self._front_columns = JoinColumns(layout=front_stage.layout, positions=cached)
        self._path_columns = JoinColumns(layout=access_path.layout, positions=shape.value_positions)

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a stream batch; yields what can be answered now."""
        incoming = self.receive(batch)
        yield from self._let_all_in(incoming)
        yield from self.settle()

    def receive(self, batch: pa.RecordBatch) -> Incoming:
        """A batch that is let in later, in parts."""
        shape = self._shape
        keys = self._encoder.encode([batch.column(position) for position in shape.key_positions])
        arrivals = Arrivals(
            batch=batch,
            keys=keys,
            key_positions=shape.key_positions,
            encoder=self._encoder,
            shards=shape.shards,
        )
        return Incoming(arrivals)

    def let_in(self, incoming: Incoming) -> Iterator[pa.RecordBatch]:
        """The front stage's phase: rows are answered, or wait, until R has to be read or none is left."""
        while incoming.left and (space := self._room.space(incoming.arrivals.row_bytes)) > 0:
            yield from self._ask(incoming, space)

    def step(self) -> Iterator[pa.RecordBatch]:
        """The other phase: one read of R."""
        self.metrics.steps += 1
        for matches in self._path.step():
            yield from self._emit_matches(matches)
            self._front.admit(matches, self._path_columns)
            self._departures.served(matches)
        self._front.adapt(self._path.cycles)

    def settle(self) -> Iterator[pa.RecordBatch]:
        """Output that is kept; afterwards no batch that came in is needed any more."""
        yield from self._output.flush()
        self._room.settle()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Reads R until everyone who waits is matched, or proven to have no match."""
        while self._room.count:
            yield from self.step()
        yield from self.settle()

    def check_invariants(self) -> None:
        self.metrics.check_invariants()
        self.budget.check_invariants()
        self._room.check_invariants()
        assert self.metrics.rows_waiting == self._room.count

    # -- inside ------------------------------------------------------------------------------------------

    def _let_all_in(self, incoming: Incoming) -> Iterator[pa.RecordBatch]:
        while incoming.left:
            yield from self.let_in(incoming)
            if incoming.left:
                yield from self.step()

    def _ask(self, incoming: Incoming, space: int) -> Iterator[pa.RecordBatch]:
        """Asks the front stage about the next rows, until `space` of them have to wait."""
        arrivals, at = incoming.arrivals, incoming.at
        answers = self._front.probe(arrivals.keys, at, space)
        misses = np.empty(answers.misses, np.int64)
        if misses.size < answers.entries.size:
            yield from self._emit_hits(incoming.rows, answers, at)
        kernels.select_misses(answers.entries, at, misses)
        taken = self._room.put(arrivals, misses) if misses.size else 0
        self._count_arrivals(answers, taken)
        self._departures.answered(arrivals, at, answers)
        incoming.at += answers.entries.size
        if taken < misses.size:
            # Larger than the room expected. They ask again, since reading R may bring their keys to the front stage.
            yield from self.step()
            yield from self._let_all_in(self.receive(arrivals.batch.take(pa.array(misses[taken:]))))

    def _emit_hits(self, rows: BatchRows, answers: Answers, at: int) -> Iterator[pa.RecordBatch]:
        limit = self._output.limit(rows)
        part = limit.starting_at(at)
        for pairs in self._front.pairs(answers, self._kind, part):
            yield from self._output.add(rows, pairs.stream_index + at, self._front_columns, pairs.row_at)

    def _emit_matches(self, matches: Matches) -> Iterator[pa.RecordBatch]:
        found, matched, unmatched = self._output.keep_matches(matches, self._path_columns)
        if found != KEPT:
            yield from self._output.add_matches(matches, self._path_columns, found)
        metrics = self.metrics
        metrics.rows_matched += matched
        metrics.rows_unmatched += unmatched
        metrics.rows_waiting -= matched + unmatched
        metrics.removals += matched + unmatched

    def _count_arrivals(self, answers: Answers, taken: int) -> None:
        """Everyone who was answered, and those who wait now; the others will ask again."""
        metrics = self.metrics
        metrics.probes += answers.probes
        metrics.rows_in += answers.present + answers.absent + answers.nulls + taken
        metrics.hits += answers.present + answers.absent
        metrics.negative_hits += answers.absent
        metrics.misses += taken
        metrics.appends += taken
        metrics.null_keys += answers.nulls
        metrics.rows_matched += answers.present
        metrics.rows_unmatched += answers.absent + answers.nulls
        metrics.rows_waiting += taken
