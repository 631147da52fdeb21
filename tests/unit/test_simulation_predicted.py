"""Predicted beside measured, and what a report says of its own certainty."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from semistream.cost_model.profiles import HDD2012, NVME
from semistream.joins import ALGORITHMS
from semistream.simulation.check import ERROR_MAX, CheckConfig, cases, check, leads, write
from semistream.simulation.config import SimulationConfig
from semistream.simulation.intervals import Estimate
from semistream.simulation.points import Point
from semistream.simulation.predicted import compare
from semistream.simulation.run import run


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_predictions_hold_at_a_point(algorithm: str) -> None:
    """The grid in full is `semistream simulate --check-predictions`."""
    config = CheckConfig(
        algorithms=(algorithm,),
        skews=(0.5,),
        memory_shares=(0.10,),
        table_rows=50_000,
        measured_rows_min=4_000,
    )
    found = list(check(config))
    assert {each.comparison.device for each in found} == {"hdd2012", "nvme"}
    for each in found:
        assert abs(each.comparison.error) <= ERROR_MAX, each.to_dict()
        assert each.is_met


@pytest.mark.parametrize(
    ("algorithm", "keys_seen"),
    [
        ("ssbj", 10.0),  # the whole memory could be its cache, which it fills to an eighth
        ("ssij", 40.0),
        ("partitioned", 40.0),
        ("cinlj", 40.0),
    ],
)
def test_predictions_hold_where_they_were_worst(algorithm: str, keys_seen: float) -> None:
    """A skewed stream in some hundred kilobytes."""
    config = CheckConfig(
        algorithms=(algorithm,),
        skews=(1.0,),
        memory_shares=(0.10,),
        table_rows=50_000,
        cached_keys_seen=keys_seen,
        measured_rows_min=10_000,
    )
    for each in check(config):
        assert abs(each.comparison.error) <= ERROR_MAX, each.to_dict()


def test_a_comparison_says_what_the_run_held() -> None:
    point = Point(table_rows=50_000, skew=1.0, memory_share=0.2)
    plan = SimulationConfig(
        algorithm="chybridjoin", memory_bytes=point.memory_bytes, warm_up_rows=30_000, interval_rows=2_000
    )
    report = run(point.table, point.stream, plan)
    found = compare(report, point.table, point.profile)
    assert found.held.waiting_rows == report.waiting_rows > 0.9 * report.waiting_max
    assert found.held.cached_keys == report.final.front_stage_keys > 0
    assert found.predicted_hit_ratio == pytest.approx(report.hit_ratio, abs=0.1)
    assert found.error == found.predicted_rows_per_s / found.measured_rows_per_s - 1
    elsewhere = compare(report, point.table, point.profile, device=HDD2012)
    assert elsewhere.measured_rows_per_s < found.measured_rows_per_s
    assert (elsewhere.device, found.device) == ("hdd2012", NVME.name)


def test_too_little_memory_is_left_out_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    config = CheckConfig(
        algorithms=("meshjoin",), skews=(0.0,), memory_shares=(0.001, 0.3), table_rows=20_000,
        measured_rows_min=1_000,
    )  # fmt: skip
    found = list(check(config, report=said.append))
    assert len(found) == 2
    assert cases(config) == 2
    assert any("left out" in text and "minimum" in text for text in said)
    write(found, tmp_path / "deep" / "predictions.json")
    written = json.loads((tmp_path / "deep" / "predictions.json").read_text())
    assert (written["checked"], written["met"]) == (2, 2)
    assert written["points"][0]["algorithm"] == "meshjoin"
    assert leads(found) == []


def test_confidence_intervals() -> None:
    assert Estimate.of([5.0]) == Estimate(mean=5.0, plus_minus=0.0)
    assert math.isnan(Estimate.of([]).mean)
    found = Estimate.of([10.0, 12.0, 14.0, 16.0])
    assert found.mean == 13.0
    assert found.plus_minus == pytest.approx(3.182 * math.sqrt(20 / 3) / 2)
    assert Estimate.of([0.0, 1.0] * 50).plus_minus == pytest.approx(1.96 * 0.5025 / 10, rel=1e-3)
