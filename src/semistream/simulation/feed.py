"""Where the rows of a run come from: a stream that never runs dry, or one that keeps its own schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.workloads.arrivals import ARRIVAL, Arrivals, with_arrivals
from semistream.workloads.contracts import RowSource

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrived:
    """Rows to be pushed, and when each of them arrived; None: the moment it is asked for."""

    rows: pa.RecordBatch
    at_s: F64 | None = None


class Feed(Protocol):
    """Rows in the order of the stream."""

    def take(self, now_s: float) -> Arrived | None:
        """The next rows that have arrived by now; None if there are none yet."""

    def next_s(self) -> float:
        """When the next row arrives; infinite: there is none any more."""


class Endless:
    """As many rows as the join can take: what service rates are measured with."""

    def __init__(self, stream: RowSource, *, batch_rows: int, first_row: int) -> None:
        self._batches = _Ahead(stream.batches(batch_rows, first=first_row))

    def take(self, now_s: float) -> Arrived | None:
        batch = self._batches.pop()
        return None if batch is None else Arrived(rows=batch)

    def next_s(self) -> float:
        return 0.0 if self._batches.peek() is not None else math.inf


class Scheduled:
    """Rows that arrive at times of their own; those that arrive while the join is busy wait outside of it."""

    def __init__(
        self, stream: RowSource, arrivals: Arrivals, *, step_s: float, batch_rows: int, first_row: int
    ) -> None:
        batches = stream.batches(batch_rows, first=first_row)
        self._batches = _Ahead(with_arrivals(batches, arrivals, step_s=step_s))
        self._rows: pa.RecordBatch | None = None
        self._at_s: F64 = np.empty(0)
        self._used = 0

    def take(self, now_s: float) -> Arrived | None:
        self._load()
        start = self._used
        stop = int(np.searchsorted(self._at_s, now_s, side="right"))
        if self._rows is None or stop <= start:
            return None
        self._used = stop
        return Arrived(rows=self._rows.slice(start, stop - start), at_s=self._at_s[start:stop])

    def next_s(self) -> float:
        self._load()
        return float(self._at_s[self._used]) if self._used < self._at_s.size else math.inf

    def _load(self) -> None:
        if self._used < self._at_s.size:
            return
        batch = self._batches.pop()
        self._used = 0
        if batch is None:
            self._rows, self._at_s = None, np.empty(0)
        else:
            self._rows, self._at_s = batch.drop_columns([ARRIVAL]), np.asarray(batch.column(ARRIVAL))


class _Ahead:
    """Batches, the next of which can be looked at."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._next: pa.RecordBatch | None = None

    def peek(self) -> pa.RecordBatch | None:
        if self._next is None:
            self._next = next(self._batches, None)
        return self._next

    def pop(self) -> pa.RecordBatch | None:
        batch, self._next = self.peek(), None
        return batch
