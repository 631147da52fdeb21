"""When the rows of a stream arrive, on a virtual clock: nothing here sleeps or looks at the time.

A schedule says how many rows arrive in each time step; which rows they are is another's choice. `arriving`
pairs any schedule with any source of rows, `with_arrivals` writes the times beside the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from semistream.errors import ConfigError
from semistream.workloads.contracts import Cutter, RowSource, random_generator
from semistream.workloads.synthetic import check_seed
from semistream.workloads.zipf import Int64s

ARRIVAL = "arrival_s"
ROWS_PER_STEP_MAX = 2**40
_STEPS = 4096
_TAG = 0xA221

Float64s = NDArray[np.float64]


class Arrivals(Protocol):
    """A schedule without end. Every call starts it anew, and gives the same numbers."""

    @property
    def rows_per_step(self) -> float:
        """The mean over a long time."""
        ...

    def counts(self) -> Iterator[Int64s]:
        """The rows of step 0, 1, 2, ..., some thousand steps at a time."""
        ...


@dataclass(frozen=True, kw_only=True)
class SteadyArrivals:
    """The same number of rows in every step, or the nearest whole numbers that add up to it."""

    rows_per_step: float

    def __post_init__(self) -> None:
        check_rate(self.rows_per_step)

    def counts(self) -> Iterator[Int64s]:
        start = 0
        while True:
            edges = np.floor(np.arange(start, start + _STEPS + 1) * self.rows_per_step).astype(np.int64)
            yield np.diff(edges)
            start += _STEPS


@dataclass(frozen=True, kw_only=True)
class PoissonArrivals:
    """Independent steps: what bursts are compared with."""

    rows_per_step: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_rate(self.rows_per_step)
        check_seed(self.seed)

    def counts(self) -> Iterator[Int64s]:
        random = random_generator(self.seed, _TAG)
        while True:
            yield random.poisson(self.rows_per_step, _STEPS)


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """What arrived in one time step; steps without rows are not mentioned."""

    step: int
    rows: pa.RecordBatch


def arriving(source: RowSource, arrivals: Arrivals, *, first: int = 0) -> Iterator[Arrival]:
    """The rows of `source` from `first` on, as they arrive; ends where the source does."""
    cutter = Cutter(source.batches(65_536, first=first), source.schema)
    step = 0
    for counts in arrivals.counts():
        for at in np.flatnonzero(counts):
            rows = cutter.take(int(counts[at]))
            if rows.num_rows:
                yield Arrival(step=step + int(at), rows=rows)
            if rows.num_rows < counts[at]:
                return
        step += counts.size


def with_arrivals(
    batches: Iterator[pa.RecordBatch], arrivals: Arrivals, *, step_s: float = 1.0
) -> Iterator[pa.RecordBatch]:
    """The same batches, with the time of arrival of every row in a new last column, in seconds.

    The times do not depend on where batches were cut; rows of a step are spread evenly over it.
    """
    times = _Times(arrivals, step_s)
    for batch in batches:
        arrived = pa.array(times.take(batch.num_rows))
        yield pa.RecordBatch.from_arrays([*batch.columns, arrived], schema=with_arrival(batch.schema))


def with_arrival(schema: pa.Schema) -> pa.Schema:
    """The schema of `with_arrivals`."""
    return schema.append(pa.field(ARRIVAL, pa.float64(), nullable=False))


def arrival_times(counts: Int64s, *, first_step: int = 0, step_s: float = 1.0) -> Float64s:
    """When each row arrives if counts[i] rows arrive in step first_step + i; rising."""
    ends = np.cumsum(counts)
    steps = np.repeat(np.arange(counts.size), counts)
    within = np.arange(steps.size) - (ends - counts)[steps]
    return (first_step + steps + (within + 0.5) / counts[steps]) * step_s


class _Times:
    """Arrival times in order, as many at a time as wanted."""

    def __init__(self, arrivals: Arrivals, step_s: float) -> None:
        if not (step_s > 0 and math.isfinite(step_s)):
            raise ConfigError(
                f"a time step must last longer than no time, got {step_s} s", hint="1.0 is a second"
            )
        self._counts, self._step_s = arrivals.counts(), step_s
        self._step, self._used = 0, 0
        self._waiting = np.empty(0, dtype=np.int64)

    def take(self, rows: int) -> Float64s:
        """Of a step only what is needed is expanded: it may hold millions of rows."""
        pieces, missing = [], rows
        while missing:
            if not self._waiting.size:
                self._waiting = next(self._counts)
            # How many rows are left up to the end of each step, the first of which may be used in part.
            left = np.cumsum(self._waiting) - self._used
            steps = int(np.searchsorted(left, missing, side="right"))
            if steps:
                times = arrival_times(self._waiting[:steps], first_step=self._step, step_s=self._step_s)
                pieces.append(times[self._used :])
                self._step, self._used = self._step + steps, 0
                self._waiting = self._waiting[steps:]
            else:
                within = np.arange(self._used, self._used + missing)
                pieces.append((self._step + (within + 0.5) / self._waiting[0]) * self._step_s)
                self._used += missing
            missing -= pieces[-1].size
        return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.float64)


def check_rate(rows_per_step: float) -> None:
    if not 0 < rows_per_step <= ROWS_PER_STEP_MAX:
        raise ConfigError(
            f"a mean of {rows_per_step} rows per time step is not possible; it must lie above 0 and at most 2^40",
            hint="10,000 rows/s in steps of 0.1 s are 1000 rows per step",
        )
