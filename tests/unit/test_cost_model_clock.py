"""Virtual time is the sum of counters times constants; profiles refuse nonsense."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from semistream.core.metrics import JoinMetrics
from semistream.cost_model.clock import Clock, VirtualClock, WallClock
from semistream.cost_model.profiles import HDD2012, NAMED_PROFILES, NVME
from semistream.cost_model.work import COUNTER_NAMES, Counts
from semistream.errors import ConfigError

CONSTANTS = {
    "random_reads": HDD2012.positioning_s,
    "random_reads_overlapped": HDD2012.positioning_s,  # one disk arm: nothing overlaps
    "read_requests": HDD2012.request_s,
    "bytes_read": 1 / HDD2012.sequential_bytes_per_s,
    "probes": HDD2012.c_H,
    "appends": HDD2012.c_A,
    "removals": HDD2012.c_E,
    "rows_out": HDD2012.c_O,
    "rows_in": HDD2012.c_S,
    "switched": HDD2012.c_B,
    "steps": HDD2012.c_step,
}


@dataclass
class Running:
    """As a join's metrics: integers that grow, and more besides."""

    random_reads: int = 0
    random_reads_overlapped: int = 0
    read_requests: int = 0
    bytes_read: int = 0
    probes: int = 0
    appends: int = 0
    removals: int = 0
    rows_out: int = 0
    rows_in: int = 0
    switched: int = 0
    steps: int = 0
    unrelated: int = 99


@pytest.mark.parametrize("name", COUNTER_NAMES)
def test_each_counter_is_charged_its_constant(name: str) -> None:
    assert HDD2012.seconds(Counts(**{name: 7.0})) == pytest.approx(7 * CONSTANTS[name], rel=1e-12)


def test_time_is_the_sum_over_all_counters() -> None:
    work = Counts(**{name: float(i + 1) for i, name in enumerate(COUNTER_NAMES)})
    expected = sum((i + 1) * CONSTANTS[name] for i, name in enumerate(COUNTER_NAMES))
    assert HDD2012.seconds(work) == pytest.approx(expected, rel=1e-12)
    assert HDD2012.seconds(work) == HDD2012.read_seconds(work) + HDD2012.processor_seconds(work)
    assert HDD2012.seconds(work + 3 * work) == pytest.approx(4 * expected, rel=1e-12)


def test_overlapped_reads_share_their_wait_where_many_can_be_in_flight() -> None:
    alone, together = Counts(random_reads=640), Counts(random_reads_overlapped=640)
    assert NVME.waits_overlap
    assert NVME.seconds(alone) == pytest.approx(NVME.in_flight * NVME.seconds(together))
    assert not HDD2012.waits_overlap
    assert HDD2012.seconds(alone) == HDD2012.seconds(together)


def test_pages_come_slower_at_random_than_in_sequence() -> None:
    for device in NAMED_PROFILES.values():
        assert device.random_bytes_per_s(8192) < device.sequential_bytes_per_s
        assert device.random_bytes_per_s(1 << 30) == pytest.approx(device.sequential_bytes_per_s, rel=0.01)


def test_virtual_clock_follows_the_counters_and_idle_time() -> None:
    work = Running()
    clock = VirtualClock(device=HDD2012, work=work)
    assert clock.now_s() == 0.0
    work.bytes_read += 100_000_000
    work.steps += 2
    assert clock.now_s() == pytest.approx(1.0 + 2 * HDD2012.c_step)
    clock.idle(0.25)
    clock.idle_until(3.0)
    assert clock.now_s() == pytest.approx(3.0)
    clock.idle_until(1.0)
    assert clock.now_s() == pytest.approx(3.0), "a moment that has passed is not waited for"
    assert Counts.of(work) == Counts(bytes_read=1e8, steps=2)


def test_wall_clock_runs_and_sleeps() -> None:
    clock: Clock = WallClock()
    before = clock.now_s()
    clock.idle(0.002)
    assert clock.now_s() >= before + 0.002


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
def test_time_does_not_run_backwards(seconds: float) -> None:
    with pytest.raises(ConfigError, match="idle"):
        VirtualClock(device=NVME, work=Counts()).idle(seconds)


@pytest.mark.parametrize(
    ("name", "value"),
    [("c_H", -1e-9), ("positioning_s", math.nan), ("sequential_bytes_per_s", 0.0), ("in_flight", 0.5)],
)
def test_a_profile_of_impossible_numbers_is_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match="hdd2012"):
        replace(HDD2012, **{name: value})


def test_a_joins_metrics_are_work() -> None:
    metrics = JoinMetrics(probes=10, rows_out=4, bytes_read=8192, random_reads=1)
    assert NVME.seconds(metrics) == NVME.seconds(
        Counts(probes=10, rows_out=4, bytes_read=8192, random_reads=1)
    )
    assert VirtualClock(device=NVME, work=metrics).now_s() == NVME.seconds(metrics)
