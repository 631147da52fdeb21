"""Output rows before their turn, in runs that are sorted by the number of their stream row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import row_sizes
from semistream.core.contracts import CHUNK_PAIRS_MAX, I64
from semistream.core.turns import NUMBER, Turns

# Beside its bytes: its number and size, the order it is put out in or what it needed if it was given up, and what its
# stream row's turn takes.
ROW_BYTES = 32 + Turns.ROW_BYTES


def row_charges(rows: pa.RecordBatch) -> I64:
    """What each row takes while it is held."""
    return row_sizes(rows) + ROW_BYTES


@dataclass(frozen=True, eq=False)
class Run:
    """Rows whose numbers never fall. A run that `is_own` holds the memory of nobody else's rows."""

    rows: pa.RecordBatch
    numbers: I64
    sizes: I64
    is_own: bool = False

    @classmethod
    def of(cls, rows: pa.RecordBatch, numbers: I64) -> Run:
        run = cls(rows, numbers, row_charges(rows))
        if bool((numbers[1:] >= numbers[:-1]).all()):
            return run
        return run.take(np.argsort(numbers, kind="stable"))

    @cached_property
    def bytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def count(self) -> int:
        return self.numbers.size

    def before(self, number: int) -> int:
        """How many rows have a lower number."""
        return int(np.searchsorted(self.numbers, number))

    def slice(self, start: int, stop: int) -> Run:
        if stop - start == self.count:
            return self
        return Run(self.rows.slice(start, stop - start), self.numbers[start:stop], self.sizes[start:stop])

    def take(self, index: I64) -> Run:
        return Run(self.rows.take(pa.array(index)), self.numbers[index], self.sizes[index], is_own=True)

    def own(self) -> Run:
        """The same rows in memory of their own."""
        return self if self.is_own else self.take(np.arange(self.count))


@dataclass(frozen=True, eq=False)
class GivenUp:
    """Stream rows whose output was given up, in order; `needs` is how much there was of it, in bytes."""

    run: Run
    needs: I64


class HeldRows:
    """Keeps output rows until `release` is told that their turn has come.

    Memory: `bytes`; while rows are put together or let go, one batch of `chunk_bytes` more, or one row. What a run has
    let go of is copied away.
    Cost: a row is sorted, and copied when runs are merged, about log2(runs) times while they are small.
    """

    def __init__(self, *, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes
        self._runs: list[Run] = []
        self._given_up: GivenUp | None = None

    @property
    def rows(self) -> int:
        return sum(run.count for run in self._runs)

    @property
    def bytes(self) -> int:
        given_up = self._given_up.run.bytes if self._given_up else 0
        return sum(run.bytes for run in self._runs) + given_up

    def add(self, run: Run) -> None:
        if self._runs and not run.rows.schema.equals(self._runs[0].rows.schema):
            run = Run(run.rows.cast(self._runs[0].rows.schema), run.numbers, run.sizes)
        self._runs.append(run)
        while len(self._runs) > 1 and self._may_merge(*self._runs[-2:]):
            one, other = self._runs[-2:]
            both = pa.concat_batches([one.rows, other.rows])
            numbers = np.concatenate([one.numbers, other.numbers])
            sizes = np.concatenate([one.sizes, other.sizes])
            self._runs[-2:] = [Run(both, numbers, sizes).take(np.argsort(numbers, kind="stable"))]

    def release(self, last: int) -> Iterator[pa.RecordBatch]:
        """All rows up to the number `last`, in order; what is left is in memory of its own afterwards."""
        ready: list[Run] = []
        left: list[Run] = []
        for run in self._runs:
            cut = run.before(last + 1)
            if cut:
                ready.append(run.slice(0, cut))
            if cut < run.count:
                left.append(run.slice(cut, run.count).own())
        self._runs = left
        if ready:
            yield from in_order(ready, self._chunk_bytes)

    def give_up(self, first: int, charges: I64, stream_columns: int, wanted_bytes: int) -> tuple[I64, int]:
        """Lets the output go of as many of the youngest rows as frees `wanted_bytes`, and keeps their stream rows.

        Only rows with numbers from `first` on, and that hold more than they were charged. Returns their numbers, and
        how many output rows they had.
        """
        totals = np.zeros(charges.size, np.int64)
        for run in self._runs:
            at = run.before(first)
            totals += np.bincount(run.numbers[at:] - first, run.sizes[at:], charges.size).astype(np.int64)
        excess = np.maximum(totals - charges, 0)
        freed = np.cumsum(excess[::-1])[::-1]
        oldest = max(0, int(np.count_nonzero(freed >= wanted_bytes)) - 1)
        excess[:oldest] = 0
        chosen = excess > 0
        if not chosen.any():
            return np.zeros(0, np.int64), 0
        runs, taken, dropped = self._runs, [], 0
        self._runs = []
        for run in runs:
            at = run.before(first)
            going = np.zeros(run.count, np.bool_)
            going[at:] = chosen[run.numbers[at:] - first]
            if going.any():
                taken.append(_stream_rows(run, going, stream_columns))
                dropped += int(np.count_nonzero(going))
                run = run.take(np.flatnonzero(~going))
            if run.count:
                self._runs.append(run)
        numbers = np.flatnonzero(chosen) + first
        self._keep_given_up(taken, numbers, totals[chosen])
        return numbers, dropped

    def given_up_numbers(self, needed_bytes: int) -> I64:
        """The oldest rows that were given up, whose output was not more than this; at least one."""
        if self._given_up is None:
            return np.zeros(0, np.int64)
        fitting = int(np.searchsorted(np.cumsum(self._given_up.needs), needed_bytes, side="right"))
        return self._given_up.run.numbers[: max(1, fitting)]

    def take_given_up(self, count: int) -> pa.RecordBatch:
        """The oldest stream rows that were given up, with their numbers as the last column."""
        assert self._given_up is not None
        run, needs = self._given_up.run, self._given_up.needs
        left = run.slice(count, run.count)
        self._given_up = GivenUp(left.own(), needs[count:].copy()) if left.count else None
        taken = run.slice(0, count)
        schema = pa.schema([*taken.rows.schema, NUMBER])
        return pa.RecordBatch.from_arrays([*taken.rows.columns, pa.array(taken.numbers)], schema=schema)

    def check_invariants(self) -> None:
        given_up = self._given_up.run.numbers if self._given_up else np.zeros(0, np.int64)
        for run in self._runs:
            assert (np.diff(run.numbers) >= 0).all()
            assert run.rows.num_rows == run.sizes.size == run.count > 0
            assert not np.isin(run.numbers, given_up).any()
        assert (np.diff(given_up) > 0).all()

    # -- inside ------------------------------------------------------------------------------------------

    def _may_merge(self, one: Run, other: Run) -> bool:
        return (
            one.count < 2 * other.count
            and one.count + other.count <= CHUNK_PAIRS_MAX
            and one.bytes + other.bytes <= self._chunk_bytes
        )

    def _keep_given_up(self, taken: list[Run], numbers: I64, needs: I64) -> None:
        before = [] if self._given_up is None else [self._given_up]
        runs = [*(each.run for each in before), *taken]
        everyone = np.concatenate([run.numbers for run in runs])
        _, firsts = np.unique(everyone, return_index=True)
        rows = pa.concat_batches([run.rows for run in runs]).take(pa.array(firsts))
        sizes = np.concatenate([run.sizes for run in runs])[firsts]
        all_numbers = np.concatenate([*(each.run.numbers for each in before), numbers])
        all_needs = np.concatenate([*(each.needs for each in before), needs])
        self._given_up = GivenUp(
            Run(rows, everyone[firsts], sizes, is_own=True), all_needs[np.argsort(all_numbers)]
        )


def in_order(runs: list[Run], chunk_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows of all runs by their numbers, in batches of `chunk_bytes` or one row."""
    if len(runs) == 1:
        for start, stop in _chunks(runs[0].sizes, chunk_bytes):
            yield runs[0].slice(start, stop).rows
        return
    order = np.argsort(np.concatenate([run.numbers for run in runs]), kind="stable")
    sizes = np.concatenate([run.sizes for run in runs])[order]
    table = pa.Table.from_batches([run.rows for run in runs])
    for start, stop in _chunks(sizes, chunk_bytes):
        yield table.take(pa.array(order[start:stop])).combine_chunks().to_batches()[0]


def _chunks(sizes: I64, chunk_bytes: int) -> Iterator[tuple[int, int]]:
    ends = np.cumsum(sizes)
    start = 0
    while start < sizes.size:
        limit = (int(ends[start - 1]) if start else 0) + chunk_bytes
        stop = int(np.searchsorted(ends, limit, side="right"))
        stop = max(start + 1, min(stop, start + CHUNK_PAIRS_MAX))
        yield start, stop
        start = stop


def _stream_rows(run: Run, going: npt.NDArray[np.bool_], stream_columns: int) -> Run:
    """One stream row for each number."""
    places = np.flatnonzero(going)
    numbers = run.numbers[places]
    places = places[np.diff(numbers, prepend=-1) != 0]
    columns = [run.rows.column(i).take(pa.array(places)) for i in range(stream_columns)]
    schema = pa.schema([run.rows.schema.field(i) for i in range(stream_columns)])
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    return Run(rows, run.numbers[places], row_charges(rows), is_own=True)
