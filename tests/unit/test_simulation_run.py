"""Joins driven without Spark: the same run twice, intervals that add up, and either clock by the same code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from semistream.core.metrics import METRIC_NAMES
from semistream.cost_model.profiles import HDD2012, NVME
from semistream.errors import BudgetError, ConfigError
from semistream.joins import ALGORITHMS, minimum_task_bytes
from semistream.master_table.virtual import VirtualTable, VirtualTableConfig
from semistream.simulation.config import SimulationConfig
from semistream.simulation.points import Point
from semistream.simulation.run import run
from semistream.workloads import make
from semistream.workloads.contracts import RowFunction

POINT = Point(table_rows=20_000, skew=1.0, memory_share=1.0)


def config_for(algorithm: str, **changes: Any) -> SimulationConfig:
    memory = minimum_task_bytes(POINT.table, [0], algorithm) + 300_000
    plan = SimulationConfig(
        algorithm=algorithm,
        memory_bytes=memory,
        warm_up_rows=3_000,
        intervals=3,
        interval_rows=1_000,
        batch_rows=256,
    )
    return replace(plan, **changes)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_the_virtual_clock_makes_runs_repeatable(algorithm: str) -> None:
    plan = config_for(algorithm)
    if ALGORITHMS[algorithm].path == "single":  # a step for each row takes long
        plan = replace(plan, warm_up_rows=500, interval_rows=200, batch_rows=64)
    first, second = (run(POINT.table, POINT.stream, plan) for _ in range(2))
    timeless = [name for name in METRIC_NAMES if not name.endswith("_ns")]
    for one, other in zip(first.intervals, second.intervals, strict=True):
        assert (one.seconds, one.row_s, one.rows) == (other.seconds, other.row_s, other.rows)
        assert [getattr(one.counters, name) for name in timeless] == [
            getattr(other.counters, name) for name in timeless
        ]
    assert first.rows_per_s == second.rows_per_s > 0


def test_time_is_the_devices_seconds_for_what_was_counted() -> None:
    report = run(POINT.table, POINT.stream, config_for("hybridjoin", device=HDD2012))
    for interval in report.intervals:
        assert interval.seconds == pytest.approx(HDD2012.seconds(interval.counters), rel=1e-9)
        assert interval.idle_s == 0
    assert report.rows_per_s_on(HDD2012) == pytest.approx(report.rows_per_s)
    assert report.rows_per_s_on(NVME) > report.rows_per_s


def test_intervals_are_of_the_wanted_size_and_add_up() -> None:
    report = run(POINT.table, POINT.stream, config_for("adaptive"))
    assert report.warm_up_rows >= 3_000
    assert [1_000 <= each.rows < 1_256 for each in report.intervals] == [True] * 3
    assert report.rows == sum(each.counters.rows_in for each in report.intervals)
    assert report.final.rows_in == report.warm_up_rows + report.rows
    assert report.hit_ratio > 0


def test_the_wall_clock_runs_the_same_code() -> None:
    virtual = run(POINT.table, POINT.stream, config_for("meshjoin"))
    wall = run(POINT.table, POINT.stream, config_for("meshjoin", clock="wall"))
    assert wall.counters.bytes_read == virtual.counters.bytes_read
    assert 0 < wall.seconds < 60


def test_an_interval_may_end_by_the_clock_or_wait_for_a_cycle() -> None:
    short = run(POINT.table, POINT.stream, config_for("inlj", interval_rows=10**9, interval_s=0.02))
    assert [each.rows < 1_000 for each in short.intervals] == [True] * 3
    cycles = run(POINT.table, POINT.stream, config_for("rmeshjoin", interval_rows=1, interval_cycles=1))
    assert [each.counters.cycles for each in cycles.intervals] == [1, 1, 1]
    assert {each.counters.pages_read for each in cycles.intervals[1:]} == {POINT.table.pages}


def test_a_warm_up_may_be_counted_in_cycles_or_limited_in_time() -> None:
    report = run(POINT.table, POINT.stream, config_for("meshjoin", warm_up_rows=0, warm_up_cycles=2))
    assert report.final.cycles >= 2
    hurried = run(POINT.table, POINT.stream, config_for("inlj", warm_up_rows=10**9, warm_up_s=0.01))
    assert hurried.warm_up_rows < 1_000


def test_another_first_row_is_another_sample_of_the_stream() -> None:
    here = run(POINT.table, POINT.stream, config_for("hybridjoin"))
    there = run(POINT.table, POINT.stream, config_for("hybridjoin", first_row=1 << 30))
    assert here.counters.pages_read != there.counters.pages_read
    assert there.rows_per_s == pytest.approx(here.rows_per_s, rel=0.2)


def test_a_stream_that_ends_ends_the_run_with_nobody_waiting() -> None:
    source = POINT.stream
    assert isinstance(source, RowFunction)
    report = run(POINT.table, replace(source, rows=4_500), config_for("hybridjoin"))
    assert report.final.rows_in == 4_500
    assert report.final.rows_waiting == 0
    assert report.final.rows_matched == 4_500


def test_workloads_by_name_fit() -> None:
    work = make("many-to-many", keys=5_000, rows_per_key=4, absent=0.2)
    table = VirtualTable(VirtualTableConfig(rows=20_000, rows_per_key=4, key_stride=2))
    report = run(table, work.stream, config_for("adaptive", how="left"))
    assert report.counters.rows_unmatched > 0


def test_impossible_runs_are_refused() -> None:
    for change in ({"intervals": 0}, {"interval_rows": 0}, {"warm_up_rows": -1}, {"clock": "sun"}):
        with pytest.raises(ConfigError):
            config_for("adaptive", **change)
    with pytest.raises(ConfigError, match="cycles"):
        run(POINT.table, POINT.stream, config_for("hybridjoin", warm_up_cycles=1))
    with pytest.raises(BudgetError, match="minimum"):
        run(POINT.table, POINT.stream, config_for("adaptive", memory_bytes=1_000))
    source = POINT.stream
    assert isinstance(source, RowFunction)
    with pytest.raises(ConfigError, match="no rows"):
        run(POINT.table, replace(source, rows=0), config_for("adaptive"))
    with pytest.raises(ConfigError, match="memory_share"):
        Point(table_rows=10, skew=1.0, memory_share=0)


@pytest.mark.parametrize("algorithm", ["adaptive", "meshjoin", "chybridjoin"])
def test_the_order_of_the_stream_has_its_price(algorithm: str) -> None:
    """Rows are in the join until they are really out, and what they wait for others is told."""
    memory = minimum_task_bytes(POINT.table, [0], algorithm, ordered=True) + 300_000
    source = POINT.stream
    assert isinstance(source, RowFunction)
    config = config_for(algorithm, memory_bytes=memory, ordered=True)
    report = run(POINT.table, replace(source, rows=7_000), config)
    assert report.ordered
    assert 0 < report.held_s < report.processing_s  # one output row each
    assert report.counters.rows_out_held_steps > 0
    assert report.final.rows_out_held_peak > 0
    for interval in report.intervals:
        assert 0 <= interval.held_row_s <= interval.row_s <= interval.seconds * interval.waiting_max
    as_it_comes = run(POINT.table, POINT.stream, replace(config, ordered=False))
    assert (as_it_comes.held_s, as_it_comes.counters.rows_out_held_steps) == (0.0, 0)


def test_an_ordered_stream_that_ends_ends_with_everyone_out() -> None:
    source = POINT.stream
    assert isinstance(source, RowFunction)
    memory = minimum_task_bytes(POINT.table, [0], "hybridjoin", ordered=True)
    config = config_for("hybridjoin", ordered=True, memory_bytes=memory, intervals=100)
    report = run(POINT.table, replace(source, rows=4_500), config)
    assert report.final.rows_in - report.final.rows_rejoined == 4_500
    assert (report.final.rows_waiting, report.final.rows_held) == (0, 0)
    assert report.warm_up_rows + sum(each.rows_left for each in report.intervals) >= 4_500 - 3_000
