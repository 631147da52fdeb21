"""What was measured: interval by interval, and what that comes to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from semistream.core.metrics import METRIC_NAMES, JoinMetrics
from semistream.cost_model.profiles import DeviceProfile

# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean, and how far it may be off (half of the 95 % confidence interval; 0 with a single value)."""

    mean: float
    plus_minus: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Of independent values.

        >>> Estimate.of([1.0, 2.0, 3.0])
        Estimate(mean=2.0, plus_minus=2.4843...)
        """
        if not values:
            return cls(mean=math.nan, plus_minus=0.0)
        if len(values) == 1:
            return cls(mean=values[0], plus_minus=0.0)
        freedom = len(values) - 1
        t = _T95[freedom - 1] if freedom <= len(_T95) else 1.96
        error = statistics.stdev(values) / math.sqrt(len(values))
        return cls(mean=statistics.fmean(values), plus_minus=t * error)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A part of a run. `counters` are those of this part alone; `waiting_max` is the most rows that waited at once.

    row_s: the sum of the time that rows spent in the join, which is the integral of how many were there.
    held_row_s: the sum of the time that output rows were held to keep the order of the stream.
    buffer_row_s: the sum of the time that rows spent in front of it since they arrived.
    """

    rows: int
    seconds: float
    idle_s: float
    row_s: float
    held_row_s: float
    buffer_row_s: float
    waiting_max: int
    counters: JoinMetrics

    @property
    def busy_s(self) -> float:
        return self.seconds - self.idle_s

    @property
    def rows_left(self) -> int:
        counters = self.counters
        gone = counters.rows_matched + counters.rows_unmatched
        return gone - counters.rows_held - counters.rows_rejoined

    @property
    def rows_out(self) -> int:
        return self.counters.rows_out - self.counters.rows_dropped - self.counters.rows_out_held

    @property
    def service_rows_per_s(self) -> float:
        """Rows for each second that the join was busy: mu where the stream never runs dry."""
        return self.rows / self.busy_s if self.busy_s > 0 else math.inf

    @property
    def processing_s(self) -> float:
        """Mean time of a row from loading to matching, by Little's law: mean number in the join / throughput
        (000 sect. 5.2.2). Rows that the front stage answers count, with no time."""
        return self.row_s / self.rows_left if self.rows_left else 0.0

    @property
    def waiting_s(self) -> float:
        """Mean time of a row in the stream's buffer, from its arrival stamp to its loading."""
        return self.buffer_row_s / self.rows if self.rows else 0.0


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run. `final` are the counters of all of it, warm-up included, with what the join held at its end."""

    algorithm: str
    ordered: bool
    clock: str
    device: DeviceProfile
    memory_bytes: int
    warm_up_rows: int
    warm_up_s: float
    intervals: tuple[Interval, ...]
    final: JoinMetrics

    @property
    def counters(self) -> JoinMetrics:
        """Of all measured intervals together."""
        total = JoinMetrics()
        for interval in self.intervals:
            total.add(interval.counters)
        return total

    @property
    def rows(self) -> int:
        return sum(interval.rows for interval in self.intervals)

    @property
    def seconds(self) -> float:
        return sum(interval.seconds for interval in self.intervals)

    @property
    def busy_s(self) -> float:
        return sum(interval.busy_s for interval in self.intervals)

    @property
    def rows_per_s(self) -> float:
        """The service rate: all measured rows by all busy seconds."""
        return self.rows / self.busy_s if self.busy_s > 0 else math.inf

    def rows_per_s_on(self, device: DeviceProfile) -> float:
        """The service rate that these counters give on another device. Exact for algorithms whose decisions do not
        depend on the device, all but `adaptive`."""
        seconds = device.seconds(self.counters)
        return self.rows / seconds if seconds > 0 else math.inf

    @property
    def service_rate(self) -> Estimate:
        """Rows per second of clock time over the intervals, idle time left out."""
        return Estimate.of([interval.service_rows_per_s for interval in self.intervals])

    @property
    def hit_ratio(self) -> float:
        return self.counters.hit_ratio

    @property
    def processing_s(self) -> float:
        left = sum(interval.rows_left for interval in self.intervals)
        return sum(interval.row_s for interval in self.intervals) / left if left else 0.0

    @property
    def held_s(self) -> float:
        """Mean time that an output row was held until its turn came, by Little's law."""
        rows_out = sum(interval.rows_out for interval in self.intervals)
        return sum(interval.held_row_s for interval in self.intervals) / rows_out if rows_out else 0.0

    @property
    def waiting_s(self) -> float:
        return sum(interval.buffer_row_s for interval in self.intervals) / self.rows if self.rows else 0.0

    @property
    def waiting_rows(self) -> float:
        """How many rows were in the join, on average over time."""
        row_s = sum(interval.row_s for interval in self.intervals)
        return row_s / self.seconds if self.seconds > 0 else 0.0

    @property
    def waiting_max(self) -> int:
        return max((interval.waiting_max for interval in self.intervals), default=0)

    def to_dict(self) -> dict[str, Any]:
        rate = self.service_rate
        return {
            "algorithm": self.algorithm,
            "ordered": self.ordered,
            "clock": self.clock,
            "device": self.device.name,
            "memory_bytes": self.memory_bytes,
            "warm_up_rows": self.warm_up_rows,
            "rows": self.rows,
            "seconds": self.seconds,
            "idle_s": self.seconds - self.busy_s,
            "rows_per_s": self.rows_per_s,
            "rows_per_s_plus_minus": rate.plus_minus,
            "hit_ratio": self.hit_ratio,
            "processing_s": self.processing_s,
            "held_s": self.held_s,
            "waiting_s": self.waiting_s,
            "waiting_rows": self.waiting_rows,
            "counters": asdict(self.counters),
            "intervals": [{**asdict(each), "counters": asdict(each.counters)} for each in self.intervals],
        }


def difference(after: JoinMetrics, before: JoinMetrics) -> JoinMetrics:
    """What was counted in between."""
    return JoinMetrics(**{name: getattr(after, name) - getattr(before, name) for name in METRIC_NAMES})
