"""Output in the stream's order, around the one loop.

rows --numbered--> window --> loop --output, and who left--> held rows --those whose turn has come--> output
                     ^                                          | too much: the youngest rows' output is given up,
                     +--- come in again when it is their turn <-+ their stream rows are kept

The order that Derakhshan et al. preserve, as recalled in 003 section 2.3: a row that the cache has answered cannot be put
out while its predecessor waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from semistream.core.contracts import I64
from semistream.core.held_rows import HeldRows, Run, row_charges
from semistream.core.loop import Incoming, JoinShape, SemiStreamJoin
from semistream.core.turns import NUMBER, Turns

# Of the ordering's share of the memory:
HELD_SHARE = 5 / 8  # may be held before output is given up
KEPT_SHARE = 1 / 2  # is held after that
EXPECTED_SHARE = 9 / 16  # may be taken by the output expected of the rows that are let in
CHARGED_SHARE = 1 / 4  # may be taken by these rows themselves: what it comes to if all output were given up
AGAIN_SHARE = 1 / 8  # of output is made anew at a time
WINDOW_PART = 1 / 16  # of the rows in the window come in together when it was full
READY_ROWS = 512  # whose turn has come are put together at once
SEEN_ROWS = 1 << 16  # after so many, what was seen of the output's size counts half


def stream_columns(shape: JoinShape) -> int:
    return len(shape.output_schema) - len(shape.value_positions)


def numbered(shape: JoinShape) -> JoinShape:
    """The same join of a stream that has its rows' numbers as the last column."""
    return replace(shape, output_schema=shape.output_schema.insert(stream_columns(shape), NUMBER))


class OrderedIncoming:
    """A batch on its way in, part by part: the rows from `at` on have not been asked about yet."""

    def __init__(self, batch: pa.RecordBatch, charges: I64) -> None:
        self.batch, self.charges = batch, charges
        self.started = 0
        self._ends = np.cumsum(charges)
        self.part: Incoming | None = None

    @property
    def at(self) -> int:
        return self.started - (self.part.left if self.part else 0)

    @property
    def left(self) -> int:
        return self.batch.num_rows - self.at

    def fitting(self, size_bytes: float) -> int:
        """How many of the next rows were charged no more than that."""
        before = int(self._ends[self.started - 1]) if self.started else 0
        return int(np.searchsorted(self._ends, before + size_bytes, side="right")) - self.started


class OrderedJoin:
    """A `SemiStreamJoin` whose output rows come in the stream's order of arrival: all of a row's before those of the next
    row, in any order among themselves. `join` joins the `numbered` shape, and tells `turns` who leaves.

    Memory: `size_bytes`, and one output batch. A row is let in while what the rows in the window were charged, and what
    their output is expected to take, fit their shares; or if the window is empty. If the output takes more than
    expected, that of the youngest rows is given up: their stream rows are kept, which is what they were charged, and
    come in again when it is their turn. The oldest row's output goes out whenever it is too much, so it may be of any size.

    Every row leaves in its turn. While the window is full nobody comes in, so by the contract of `AccessPath` repeated
    steps serve all who wait. Then the oldest row has left, and is out, or it was given up and comes in again, behind
    nobody: its output is let out as it comes, and not given up twice. Either way the window moves.

    What it costs: output is held (`rows_out_held_steps`); fewer rows wait together; and what was given up is done twice
    (`rows_rejoined`, `rows_dropped`). Per output row: a sort of its batch, and a copy or two if it is held.
    """

    def __init__(
        self, join: SemiStreamJoin, shape: JoinShape, *, turns: Turns, size_bytes: int, output_bytes: int
    ) -> None:
        self.metrics, self.budget = join.metrics, join.budget
        self._join, self._turns, self._size_bytes = join, turns, size_bytes
        self._names = shape.output_schema.names
        self._columns = stream_columns(shape)
        self._chunk_bytes = output_bytes
        self._held = HeldRows(chunk_bytes=output_bytes)
        self._ready = 0  # the oldest row when all output of those before it was out
        self._numbered = 0
        self._seen_bytes = self._seen_rows = 0.0
        self.held_bytes_peak = 0

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a stream batch; yields what can be answered now, and whose turn it is."""
        incoming = self.receive(batch)
        while incoming.left:
            yield from self.let_in(incoming)
            if incoming.left:
                yield from self.step()
        yield from self.settle()

    def receive(self, batch: pa.RecordBatch) -> OrderedIncoming:
        """A batch that is let in later, in parts, before the next one is."""
        first, self._numbered = self._numbered, self._numbered + batch.num_rows
        fields = [field.with_name(name) for field, name in zip(batch.schema, self._names, strict=False)]
        numbers = pa.array(np.arange(first, self._numbered))
        with_numbers = pa.RecordBatch.from_arrays(
            [*batch.columns, numbers], schema=pa.schema([*fields, NUMBER])
        )
        return OrderedIncoming(with_numbers, row_charges(batch))

    def let_in(self, incoming: OrderedIncoming) -> Iterator[pa.RecordBatch]:
        """The front stage's phase: rows are answered, or wait, until R has to be read or none is left."""
        while incoming.left:
            if incoming.part is None or not incoming.part.left:
                count = self._space(incoming)
                if not count:
                    return
                yield from self.settle()
                self._begin(incoming, count)
            assert incoming.part is not None
            yield from self._sort_out(self._join.let_in(incoming.part))
            self._count()
            if incoming.part.left:
                return

    def step(self) -> Iterator[pa.RecordBatch]:
        """The other phase: rows whose output was given up come in again, if it is their turn; and one read of R."""
        self.metrics.rows_out_held_steps += self.metrics.rows_out_held
        if self._turns.is_given_up:
            yield from self._join_again()
        if self.metrics.rows_waiting:
            yield from self._sort_out(self._join.step())
        self._count()
        is_too_much = self._held.bytes > self._size_bytes * HELD_SHARE
        if self._turns.oldest - self._ready >= READY_ROWS or is_too_much:
            yield from self.settle()

    def settle(self) -> Iterator[pa.RecordBatch]:
        """All output whose turn has come; afterwards no batch that came in is needed any more."""
        yield from self._sort_out(self._join.settle())
        self._ready = self._turns.oldest
        yield from self._held.release(self._ready)
        self._count()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Reads R until everyone is out."""
        while self.metrics.rows_waiting or self._turns.is_given_up:
            yield from self.step()
        yield from self.settle()

    def check_invariants(self) -> None:
        self._join.check_invariants()
        self._turns.check_invariants()
        self._held.check_invariants()
        assert self._ready <= self._turns.oldest <= self._turns.next <= self._numbered
        assert self.metrics.rows_held == self._turns.held
        assert self.metrics.rows_waiting + self._turns.held <= self._turns.in_flight
        assert self.metrics.rows_in - self.metrics.rows_rejoined <= self._numbered
        assert self.held_bytes_peak <= self._size_bytes

    # -- inside ------------------------------------------------------------------------------------------

    def _space(self, incoming: OrderedIncoming) -> int:
        """How many of the next rows may come in; at least one if nobody is in flight. None, while there would be few."""
        turns = self._turns
        count = incoming.fitting(max(0.0, self._size_bytes * CHARGED_SHARE - turns.charged))
        if self._seen_rows:
            expected = max(1.0, self._seen_bytes / self._seen_rows)
            count = min(count, int(self._size_bytes * EXPECTED_SHARE / expected) - turns.in_flight)
        if not turns.in_flight:
            return max(count, 1)
        worth_it = min(incoming.batch.num_rows - incoming.started, turns.in_flight * WINDOW_PART)
        return max(count, 0) if count >= worth_it else 0

    def _begin(self, incoming: OrderedIncoming, count: int) -> None:
        start = incoming.started
        self._turns.enter(incoming.charges[start : start + count])
        incoming.part = self._join.receive(incoming.batch.slice(start, count))
        incoming.started += count

    def _sort_out(self, output: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Drops what was given up, and holds the rest; if that is too much, the oldest row's output goes out."""
        left_before, limit = self._turns.departures, self._size_bytes * HELD_SHARE
        for batch in output:
            run = self._run_of(batch)
            if not run.count:
                continue
            self._seen_bytes += run.slice(run.before(self._ready + 1), run.count).bytes
            self._held.add(run)
            if self._held.bytes > limit:
                yield from self._held.release(self._ready)
            if self._held.bytes > limit:
                self._give_up()
            self.held_bytes_peak = max(self.held_bytes_peak, self._held.bytes)
        self._seen_rows += self._turns.departures - left_before
        if self._seen_rows > SEEN_ROWS:
            self._seen_rows, self._seen_bytes = self._seen_rows / 2, self._seen_bytes / 2

    def _run_of(self, batch: pa.RecordBatch) -> Run:
        numbers = batch.column(self._columns).to_numpy()
        columns = batch.columns
        del columns[self._columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=batch.schema.remove(self._columns))
        if self._turns.given_up:
            dropped = self._turns.are_given_up(numbers)
            if dropped.any():
                self.metrics.rows_dropped += int(np.count_nonzero(dropped))
                rows, numbers = rows.filter(pa.array(~dropped)), numbers[~dropped]
        return Run.of(rows, numbers)

    def _give_up(self) -> None:
        """Never the output of rows that are partly out, nor of those whose turn has come."""
        first = max(self._ready + 1, self._turns.oldest)
        if first >= self._turns.next:
            return
        wanted = self._held.bytes - int(self._size_bytes * KEPT_SHARE)
        numbers, dropped = self._held.give_up(first, self._turns.charges_from(first), self._columns, wanted)
        self._turns.give_up(numbers)
        self.metrics.rows_dropped += dropped

    def _join_again(self) -> Iterator[pa.RecordBatch]:
        yield from self.settle()
        numbers = self._held.given_up_numbers(int(self._size_bytes * AGAIN_SHARE))
        have_left = self._turns.have_left(numbers)
        numbers = numbers[: numbers.size if have_left.all() else int(np.argmin(have_left))]
        rows = self._held.take_given_up(numbers.size)
        self._turns.enter_again(numbers)
        self.metrics.rows_rejoined += numbers.size
        yield from self._sort_out(self._join.push(rows))

    def _count(self) -> None:
        metrics = self.metrics
        metrics.rows_held, metrics.rows_out_held = self._turns.held, self._held.rows
        metrics.rows_out_held_peak = max(metrics.rows_out_held_peak, metrics.rows_out_held)
