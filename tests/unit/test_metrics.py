"""Metrics: the conservation law is checked, sums add up, the way through a Spark task loses nothing."""

from __future__ import annotations

from dataclasses import fields

import pytest

from semistream.core.metrics import METRIC_NAMES, JoinMetrics


def consistent() -> JoinMetrics:
    return JoinMetrics(
        rows_in=10, rows_matched=4, rows_unmatched=3, rows_waiting=2, rows_shed=1,
        null_keys=1, hits=5, negative_hits=2, misses=4, budget_peak_bytes=7, budget_bytes=8,
    )  # fmt: skip


def test_a_consistent_count_passes() -> None:
    consistent().check_invariants()


@pytest.mark.parametrize(
    "name",
    ["rows_in", "rows_matched", "rows_unmatched", "rows_waiting", "rows_shed", "null_keys", "hits", "misses"],
)
@pytest.mark.parametrize("by", [1, -1])
def test_a_row_lost_or_doubled_is_noticed(name: str, by: int) -> None:
    metrics = consistent()
    setattr(metrics, name, getattr(metrics, name) + by)
    with pytest.raises(AssertionError):
        metrics.check_invariants()


@pytest.mark.parametrize("change", [{"negative_hits": 6}, {"budget_peak_bytes": 9}])
def test_other_contradictions_are_noticed(change: dict[str, int]) -> None:
    metrics = consistent()
    for name, value in change.items():
        setattr(metrics, name, value)
    with pytest.raises(AssertionError):
        metrics.check_invariants()


def test_the_way_out_of_a_task() -> None:
    metrics = JoinMetrics(**{name: 3 * i + 1 for i, name in enumerate(METRIC_NAMES)})
    assert JoinMetrics.from_bytes(metrics.to_bytes()) == metrics
    assert tuple(field.name for field in fields(JoinMetrics)) == METRIC_NAMES


def test_adding_adds_every_counter() -> None:
    total = JoinMetrics(**{name: i for i, name in enumerate(METRIC_NAMES)})
    total.add(JoinMetrics(**dict.fromkeys(METRIC_NAMES, 100)))
    assert [getattr(total, name) for name in METRIC_NAMES] == [100 + i for i in range(len(METRIC_NAMES))]


def test_the_hit_ratio_leaves_null_keys_out() -> None:
    assert JoinMetrics().hit_ratio == 0.0
    assert JoinMetrics(hits=3, misses=1, null_keys=50).hit_ratio == 0.75
