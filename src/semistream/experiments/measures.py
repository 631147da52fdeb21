"""What is read off the result of a run: one number, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from semistream.cost_model.profiles import NAMED_PROFILES, DeviceProfile
from semistream.cost_model.work import COUNTER_NAMES, Counts
from semistream.experiments.tasks import Result
from semistream.simulation.intervals import Estimate


@dataclass(frozen=True, kw_only=True)
class Measured:
    """`plus_minus` is half of the 95 % confidence interval over the intervals; None where there is nothing to be uncertain
    of, as in an exact count."""

    value: float
    plus_minus: float | None = None


Interval = Mapping[str, Any]
# One number of one interval on a device.
Reading = Callable[[Interval, DeviceProfile], float]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """`whole` reads all intervals added up, which weights them rightly; `reading` each of them, for the confidence."""

    name: str
    unit: str
    reading: Reading

    def of(self, result: Result, device: str) -> Measured | None:
        """None: there was too little memory to run, or nothing came by."""
        intervals = result.get("intervals", [])
        if not intervals:
            return None
        profile = NAMED_PROFILES[device]
        value = self.reading(added_up(intervals), profile)
        if not math.isfinite(value):
            return None
        each = [self.reading(interval, profile) for interval in intervals]
        certain = len(each) > 1 and all(math.isfinite(one) for one in each)
        return Measured(value=value, plus_minus=Estimate.of(each).plus_minus if certain else None)


def added_up(intervals: list[Interval]) -> Interval:
    """All intervals as one; the most that waited is the highest of them."""
    total: dict[str, Any] = {
        name: sum(each[name] for each in intervals)
        for name in ("rows", "rows_left", "seconds", "idle_s", "row_s", "buffer_row_s")
    }
    total["waiting_max"] = max(each["waiting_max"] for each in intervals)
    names = intervals[0]["counters"]
    total["counters"] = {name: sum(each["counters"][name] for each in intervals) for name in names}
    return total


def counts_of(interval: Interval) -> Counts:
    counters = interval["counters"]
    return Counts(**{name: float(counters[name]) for name in COUNTER_NAMES})


def busy_seconds(interval: Interval, device: DeviceProfile) -> float:
    """The time that this work takes on a device."""
    return device.seconds(counts_of(interval))


def _ratio(over: float, under: float) -> float:
    return over / under if under > 0 else math.nan


def _service_rate(interval: Interval, device: DeviceProfile) -> float:
    return _ratio(interval["rows"], busy_seconds(interval, device))


def _front_stage_rate(interval: Interval, device: DeviceProfile) -> float:
    return _ratio(interval["counters"]["hits"], busy_seconds(interval, device))


def _disk_phase_rate(interval: Interval, device: DeviceProfile) -> float:
    return _ratio(interval["counters"]["removals"], busy_seconds(interval, device))


def _hit_share(interval: Interval, device: DeviceProfile) -> float:
    counters = interval["counters"]
    return _ratio(counters["hits"], counters["hits"] + counters["misses"])


def _processing_ms(interval: Interval, device: DeviceProfile) -> float:
    """Little's law: the mean number of rows in the join, by the rate at which they leave. The number is the mean over the
    time of the device that the run was charged to; queues that are kept full hold as many on any other."""
    waiting = _ratio(interval["row_s"], interval["seconds"])
    return 1e3 * waiting * _ratio(busy_seconds(interval, device) + interval["idle_s"], interval["rows_left"])


def _waiting_ms(interval: Interval, device: DeviceProfile) -> float:
    return 1e3 * _ratio(interval["buffer_row_s"], interval["rows"])


def _cost_us(interval: Interval, device: DeviceProfile) -> float:
    return 1e6 * _ratio(busy_seconds(interval, device), interval["rows"])


MEASURES = {
    measure.name: measure
    for measure in (
        Measure(name="service rate", unit="rows/s", reading=_service_rate),
        Measure(name="rate through the front stage", unit="rows/s", reading=_front_stage_rate),
        Measure(name="rate through the disk phase", unit="rows/s", reading=_disk_phase_rate),
        Measure(name="share through the front stage", unit="of the stream", reading=_hit_share),
        Measure(name="processing time", unit="ms", reading=_processing_ms),
        Measure(name="waiting time", unit="ms", reading=_waiting_ms),
        Measure(name="cost", unit="us a row", reading=_cost_us),
    )
}
