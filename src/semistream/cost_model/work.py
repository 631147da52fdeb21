"""The work of a join, counted: what a device profile turns into seconds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol


class Work(Protocol):
    """Counters that time is a function of. `JoinMetrics` has them for a run, `Counts` for a prediction.

    random_reads: positionings of the disk, one for each stretch of neighbouring pages read;
        `random_reads_overlapped` are those that were started together with many others.
    read_requests: calls that asked for bytes, whatever their size. bytes_read: what they brought.
    probes: rows looked up in H_R or H_S. appends, removals: rows put into and taken out of H_S and Q.
    rows_in, rows_out: stream rows taken, joined rows given. switched: master rows moved into the front stage.
    steps: turns of the loop.
    """

    @property
    def random_reads(self) -> float: ...
    @property
    def random_reads_overlapped(self) -> float: ...
    @property
    def read_requests(self) -> float: ...
    @property
    def bytes_read(self) -> float: ...
    @property
    def probes(self) -> float: ...
    @property
    def appends(self) -> float: ...
    @property
    def removals(self) -> float: ...
    @property
    def rows_out(self) -> float: ...
    @property
    def rows_in(self) -> float: ...
    @property
    def switched(self) -> float: ...
    @property
    def steps(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Expected work, so fractions of a row are fine.

    >>> (Counts(probes=2.0) + 3 * Counts(probes=1.0, steps=1.0)).probes
    5.0
    """

    random_reads: float = 0.0
    random_reads_overlapped: float = 0.0
    read_requests: float = 0.0
    bytes_read: float = 0.0
    probes: float = 0.0
    appends: float = 0.0
    removals: float = 0.0
    rows_out: float = 0.0
    rows_in: float = 0.0
    switched: float = 0.0
    steps: float = 0.0

    def __add__(self, other: Work) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in COUNTER_NAMES})

    def __rmul__(self, factor: float) -> Counts:
        return Counts(**{name: factor * getattr(self, name) for name in COUNTER_NAMES})

    @classmethod
    def of(cls, work: Work) -> Counts:
        """A copy of the counters as they are now."""
        return cls(**{name: float(getattr(work, name)) for name in COUNTER_NAMES})


COUNTER_NAMES = tuple(field.name for field in fields(Counts))
