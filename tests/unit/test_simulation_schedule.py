"""Streams that arrive by their own schedule: who waits, for how long, and when the join is idle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.cost_model.profiles import NVME, DeviceProfile
from semistream.joins import ALGORITHMS, minimum_task_bytes
from semistream.simulation.config import SimulationConfig
from semistream.simulation.feed import Endless, Scheduled
from semistream.simulation.points import Point
from semistream.simulation.run import run
from semistream.workloads import BurstyArrivals, PoissonArrivals, SteadyArrivals, make_arrivals
from semistream.workloads.contracts import RowFunction

POINT = Point(table_rows=20_000, skew=1.0, memory_share=1.0)
# A lookup takes a second, everything else no time: queues can be worked out by hand.
SECOND = DeviceProfile(
    name="second", source="made up", positioning_s=1.0, request_s=0, sequential_bytes_per_s=1e30,
    c_H=0, c_O=0, c_E=0, c_S=0, c_A=0, c_B=0, c_step=0,
)  # fmt: skip


def config_for(algorithm: str, **changes: Any) -> SimulationConfig:
    memory = minimum_task_bytes(POINT.table, [0], algorithm) + 300_000
    plan = SimulationConfig(
        algorithm=algorithm, memory_bytes=memory, intervals=4, interval_rows=500, batch_rows=256
    )
    return replace(plan, **changes)


@dataclass(frozen=True)
class Listed:
    """Rows that arrive in the middle of these seconds."""

    per_step: tuple[int, ...]
    rows_per_step: float = 1.0

    def counts(self) -> Any:
        yield np.array(self.per_step, np.int64)
        while True:
            yield np.ones(4096, np.int64)


def far_apart(rows: int) -> RowFunction:
    """A stream whose rows are all on other pages than the one before, so that every lookup positions anew."""
    schema = pa.schema([("key", pa.int64()), ("seq", pa.int64())])

    def read(first: int, count: int) -> pa.RecordBatch:
        numbers = np.arange(first, first + count)
        return pa.RecordBatch.from_arrays(
            [pa.array(numbers * 7919 % 20_000), pa.array(numbers)], schema=schema
        )

    return RowFunction(schema=schema, rows=rows, read=read)


def test_idle_and_waiting_times_by_hand() -> None:
    """Four rows come at 0.5, 5.25, 5.75 and 10.5 s, a lookup takes one second: the third waits for the second."""
    plan = config_for("inlj", device=SECOND, intervals=1, interval_rows=4, batch_rows=8)
    arrivals = Listed((1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1))
    report = run(POINT.table, far_apart(4), plan, arrivals=arrivals)
    (interval,) = report.intervals
    assert report.rows == 4
    assert interval.buffer_row_s == pytest.approx(6.25 - 5.75)
    assert interval.idle_s == pytest.approx(0.5 + (5.25 - 1.5) + (10.5 - 7.25))
    assert report.final.random_reads <= 4


def test_littles_law_by_hand() -> None:
    """A lookup in one second, rows two seconds apart: one row is there half of the time, for one second."""
    plan = config_for("inlj", device=SECOND, intervals=1, interval_rows=50, batch_rows=8)
    report = run(POINT.table, far_apart(60), plan, arrivals=SteadyArrivals(rows_per_step=0.5))
    assert report.processing_s == pytest.approx(1.0, rel=0.03)
    assert report.waiting_rows == pytest.approx(0.5, rel=0.03)
    assert report.seconds - report.busy_s == pytest.approx(report.seconds / 2, rel=0.03)
    assert report.waiting_s == 0
    assert report.rows_per_s == pytest.approx(1.0, rel=0.03)


def test_littles_law_of_a_full_room() -> None:
    """Under an endless stream MESHJOIN's room is full, and every row stays for a cycle."""
    plan = config_for("meshjoin", warm_up_cycles=2, interval_rows=1, interval_cycles=1)
    report = run(POINT.table, POINT.stream, plan)
    cycle_s = report.seconds / report.counters.cycles
    assert report.processing_s == pytest.approx(cycle_s, rel=0.05)
    assert report.waiting_rows == pytest.approx(report.waiting_max, rel=0.02)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_slow_stream_leaves_time_and_loses_no_row(algorithm: str) -> None:
    """At a tenth of what the join can do, it is idle, or reads on for those who wait; either way all rows leave."""
    plan = config_for(algorithm)
    is_slow = ALGORITHMS[algorithm].path == "single"
    rows = 200 if is_slow else 1_500
    warm = replace(plan, warm_up_rows=1_000 if is_slow else 6_000)
    if ALGORITHMS[algorithm].path == "cycle":
        warm = replace(warm, interval_rows=1, interval_cycles=1)
    filled = run(POINT.table, POINT.stream, warm)
    rate, source = 0.1 * filled.rows_per_s, POINT.stream
    assert isinstance(source, RowFunction)
    arrivals = SteadyArrivals(rows_per_step=rate * 1e-3)
    report = run(POINT.table, replace(source, rows=rows), plan, arrivals=arrivals, arrival_step_s=1e-3)
    assert report.final.rows_matched == report.final.rows_in == rows
    # Whoever came last may stay for a cycle more. SSIJ reads for everyone at the end, longer than the stream lasted.
    least = 0.1 if ALGORITHMS[algorithm].path == "batched" else 0.6
    assert least * rate < report.rows / report.seconds < 1.1 * rate
    assert report.processing_s > 0


def test_overload_shows_in_the_waiting_time() -> None:
    plan = config_for("hybridjoin", warm_up_rows=4_000)
    mu = run(POINT.table, POINT.stream, plan).rows_per_s
    waited = []
    for load in (0.2, 3.0):
        arrivals = PoissonArrivals(rows_per_step=load * mu * 0.01, seed=3)
        waited.append(run(POINT.table, POINT.stream, plan, arrivals=arrivals, arrival_step_s=0.01).waiting_s)
    assert waited[1] > 10 * waited[0]


def test_schedules_are_repeatable() -> None:
    plan = config_for("hybridjoin")
    reports = [
        run(
            POINT.table,
            POINT.stream,
            plan,
            arrivals=BurstyArrivals(streams=6, mean_rows_per_step=40.0, seed=1),
            arrival_step_s=0.01,
        )
        for _ in range(2)
    ]
    assert reports[0].waiting_s == reports[1].waiting_s > 0
    assert [each.seconds for each in reports[0].intervals] == [each.seconds for each in reports[1].intervals]


def test_a_feed_gives_rows_when_they_have_arrived() -> None:
    feed = Scheduled(
        POINT.stream, make_arrivals("steady", rows_per_s=10.0), step_s=1.0, batch_rows=16, first_row=0
    )
    assert feed.take(0.0) is None
    assert feed.next_s() == pytest.approx(0.05)
    first = feed.take(0.5)
    assert first is not None
    assert first.at_s is not None
    assert first.rows.num_rows == first.at_s.size == 5
    assert first.rows.schema == POINT.stream.schema
    rest = feed.take(1e9)
    assert rest is not None
    assert rest.rows.num_rows == 11  # the end of a batch of 16
    assert feed.next_s() == pytest.approx(1.65)


def test_an_endless_feed_is_the_stream_itself() -> None:
    feed = Endless(POINT.stream, batch_rows=100, first_row=50)
    taken = [feed.take(0.0) for _ in range(3)]
    expected = list(islice(POINT.stream.batches(100, first=50), 3))
    assert [each.rows for each in taken if each is not None] == expected
    assert NVME.name == "nvme"
