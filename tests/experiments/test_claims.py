"""Claims are judged by the rows of their figure, and by what the paper's own cost model allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from semistream.errors import ConfigError
from semistream.experiments.claims import Claim, judge, read_expected
from semistream.experiments.paper_bounds import front_stage_gain, hits_only
from semistream.experiments.rows import Row, Source
from semistream.experiments.scenario import Scenario
from semistream.experiments.verdicts import Grade

SCENARIO = Scenario(table_rows=100_000_000, memory_share=0.10, skew=1.0)


def row(series: str, x: float, value: float, *, device: str = "hdd2012", source: Source = "measured") -> Row:
    return Row(
        paper="skewed", figure="fig05a", series=series, device=device, x=x, measure="service rate",
        unit="rows/s", value=value, source=source, algorithm=series,
    )  # fmt: skip


ROWS = [
    row("meshjoin", 1.0, 100.0),
    row("meshjoin", 10.0, 1000.0),
    row("cmeshjoin", 1.0, 390.0),
    row("cmeshjoin", 10.0, 3500.0),
    row("cmeshjoin", 10.0, 900.0, device="nvme"),
    row("meshjoin", 10.0, 1000.0, device="nvme"),
]
RATIO = Claim(says="6.5 times", rule="ratio", first="cmeshjoin", second="meshjoin", at=10, claimed=6.5)


def test_a_claim_is_judged_at_its_place_and_on_its_device() -> None:
    assert judge(RATIO, ROWS, {}).verdict.value == 3.5
    assert judge(RATIO, ROWS, {}).verdict.grade is Grade.DIRECTION
    low = Claim(says="4 times", rule="ratio", first="cmeshjoin", second="meshjoin", at=1, claimed=4.0)
    assert judge(low, ROWS, {}).verdict.grade is Grade.REPRODUCED
    nvme = Claim(says="..", rule="ratio", first="cmeshjoin", second="meshjoin", claimed=6.5, device="nvme")
    assert judge(nvme, ROWS, {}).verdict.grade is Grade.NOT


def test_a_series_that_was_not_measured_is_no_failure_of_the_paper() -> None:
    claim = Claim(says="..", rule="ratio", first="ssbj", second="meshjoin", claimed=2.0)
    assert judge(claim, ROWS, {}).verdict.grade is Grade.MISSING
    elsewhere = Claim(**{**vars(RATIO), "at": 5.0})
    assert judge(elsewhere, ROWS, {}).verdict.grade is Grade.MISSING


def test_a_claim_beyond_the_papers_own_bound_says_so() -> None:
    claim = Claim(
        says="6.5 times", rule="ratio", first="cmeshjoin", second="meshjoin", at=10, claimed=6.5,
        bound="front_stage_gain",
    )  # fmt: skip
    judged = judge(claim, ROWS, {10.0: SCENARIO})
    assert judged.is_unreachable
    assert judged.bound == front_stage_gain(SCENARIO)
    assert "unreachable under the paper's own cost model" in judged.text
    assert "6.5" in judged.text
    modest = Claim(**{**vars(claim), "claimed": 2.0})
    assert not judge(modest, ROWS, {10.0: SCENARIO}).is_unreachable
    assert "at most" in judge(modest, ROWS, {10.0: SCENARIO}).text


def test_the_gain_of_a_front_stage_by_equation_4() -> None:
    """Without memory taken from the disk phase, 15 % of it gain 1 / (1 - p); with it, no size gains as much."""
    p = float(SCENARIO.profile.top(0.15 * SCENARIO.memory_bytes / 128))
    assert hits_only(SCENARIO) == pytest.approx(1 / (1 - p))
    assert 0.85 / (1 - p) <= front_stage_gain(SCENARIO) < hits_only(SCENARIO)
    uniform = Scenario(table_rows=1_000_000, memory_share=0.10, skew=0.0)
    assert front_stage_gain(uniform) == pytest.approx(1.0)


def test_predictions_are_paired_with_what_was_measured() -> None:
    rows = [
        row("meshjoin", 1.0, 100.0),
        row("meshjoin, predicted", 1.0, 110.0, source="predicted"),
        row("meshjoin", 2.0, 100.0),
    ]
    claim = Claim(says="close", rule="close", tolerance=0.15)
    assert judge(claim, rows, {}).verdict.grade is Grade.REPRODUCED
    rows[1] = row("meshjoin, predicted", 1.0, 200.0, source="predicted")
    assert judge(claim, rows, {}).verdict.grade is Grade.NOT


def test_what_is_wrong_with_a_claim_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rule"):
        Claim(says="x", rule="magic")
    with pytest.raises(ConfigError, match="second"):
        Claim(says="x", rule="ratio", first="a", claimed=1.0)
    with pytest.raises(ConfigError, match="claimed"):
        Claim(says="x", rule="level", first="a")
    with pytest.raises(ConfigError, match="no bound"):
        Claim(says="x", rule="above", first="a", second="b", bound="sky")
    file = tmp_path / "expected.toml"
    file.write_text('[[skewed.fig05a]]\nsays = "x"\nrule = "rises"\nfirst = "a"\ncolour = "red"\n')
    with pytest.raises(ConfigError, match="colour"):
        read_expected(file)
