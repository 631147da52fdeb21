"""Verdict rules on made-up numbers: each must be able to say yes, half, no, and that there is nothing to judge."""

from __future__ import annotations

import math

import pytest

from semistream.experiments import verdicts
from semistream.experiments.verdicts import Grade

YES, HALF, NO, MISSING = Grade.REPRODUCED, Grade.DIRECTION, Grade.NOT, Grade.MISSING


@pytest.mark.parametrize(
    ("measured", "claimed", "grade"),
    [
        (6.5, 6.5, YES), (5.3, 6.5, YES), (7.7, 6.5, YES), (4.0, 6.5, HALF), (9.0, 6.5, HALF), (1.01, 6.5, HALF),
        (0.9, 6.5, NO), (1.0, 6.5, NO), (0.5, 0.45, YES), (0.9, 0.45, HALF), (1.2, 0.45, NO),
        (0.95, 1.1, NO), (1.05, 0.9, NO), (0.99, 1.0, YES), (0.7, 1.0, NO), (1.4, 1.0, NO),
        (math.nan, 6.5, MISSING), (math.inf, 6.5, MISSING),
    ],
)  # fmt: skip
def test_ratio(measured: float, claimed: float, grade: Grade) -> None:
    assert verdicts.ratio(measured, claimed, tolerance=0.2).grade is grade


@pytest.mark.parametrize(
    ("measured", "grade"),
    [(0.51, YES), (0.60, YES), (0.70, HALF), (0.30, HALF), (0.10, NO), (math.nan, MISSING)],
)
def test_level(measured: float, grade: Grade) -> None:
    assert verdicts.level(measured, 0.51, tolerance=0.2).grade is grade


FLAT = [(1.0, 10.0), (2.0, 10.0), (3.0, 10.0)]


@pytest.mark.parametrize(
    ("values", "grade"),
    [((11, 12, 13), YES), ((9, 12, 13), HALF), ((9, 9, 13), NO), ((11, 11, 2), NO), ((9, 9, 9), NO)],
)
def test_above(values: tuple[float, ...], grade: Grade) -> None:
    first = [(x, value) for (x, _), value in zip(FLAT, values, strict=True)]
    assert verdicts.above(first, FLAT).grade is grade


def test_above_compares_only_places_that_both_have() -> None:
    assert verdicts.above([(1.0, 11.0), (9.0, 1.0)], FLAT).grade is YES
    assert verdicts.above([(9.0, 11.0)], FLAT).grade is MISSING


@pytest.mark.parametrize(
    ("values", "rises", "falls"),
    [
        ((1, 2, 3), YES, NO),
        ((3, 2, 1), NO, YES),
        ((1, 2, 1.97), YES, NO),
        ((1, 3, 2), HALF, NO),
        ((2, 3, 1), NO, HALF),
        ((1, 1, 1), NO, NO),
        ((1,), MISSING, MISSING),
    ],
)
def test_rises_and_falls(values: tuple[float, ...], rises: Grade, falls: Grade) -> None:
    curve = [(float(x), float(value)) for x, value in enumerate(values)]
    assert verdicts.rises(curve[::-1], slack=0.03).grade is rises
    assert verdicts.falls(curve, slack=0.03).grade is falls


@pytest.mark.parametrize(
    ("values", "grade"),
    [
        ((1, 3, 5, 4, 2), YES),
        ((1, 3, 5, 5.1, 2), YES),
        ((1, 3, 2, 5, 2), HALF),
        ((1, 2, 3, 4, 5), NO),
        ((5, 4, 3, 2, 1), NO),
        ((1, 2), MISSING),
    ],
)
def test_one_maximum(values: tuple[float, ...], grade: Grade) -> None:
    curve = [(float(x), float(value)) for x, value in enumerate(values)]
    assert verdicts.one_maximum(curve, slack=0.03).grade is grade


@pytest.mark.parametrize(
    ("values", "grade"), [((3, 9, 5, 4), YES), ((3, 8.8, 9, 4), HALF), ((3, 5, 6, 9), NO), ((), MISSING)]
)
def test_argmax_near(values: tuple[float, ...], grade: Grade) -> None:
    curve = [(5.0 + 10 * place, float(value)) for place, value in enumerate(values)]
    assert verdicts.argmax_near(curve, 15.0, tolerance=5.0).grade is grade


@pytest.mark.parametrize(
    ("values", "grade"),
    [((5, 8, 14), YES), ((5, 8, 9), NO), ((12, 13, 14), NO), ((9, 20, 30), HALF), ((), MISSING)],
)
def test_crossing(values: tuple[float, ...], grade: Grade) -> None:
    first = [(x, float(value)) for x, value in zip((10.0, 100.0, 200.0), values, strict=False)]
    second = [(x, 10.0) for x in (10.0, 100.0, 200.0)]
    found = verdicts.crossing(first, second, 150.0, tolerance=0.5)
    assert found.grade is grade
    if grade is YES:
        assert 100 < found.value < 200


@pytest.mark.parametrize(
    ("pairs", "grade"),
    [
        (((10, 11), (5, 5)), YES),
        (((10, 11), (5, 5), (1, 2)), HALF),
        (((10, 20), (5, 5)), NO),
        (((10, 20), (1, 2)), NO),
        ((), MISSING),
    ],
)
def test_close(pairs: tuple[tuple[float, float], ...], grade: Grade) -> None:
    assert verdicts.close(pairs, tolerance=0.15).grade is grade


def test_spread() -> None:
    steady = [(float(x), 10.0 + x % 2) for x in range(10)]
    bursty = [(float(x), 1.0 + 18.0 * (x % 2)) for x in range(10)]
    assert verdicts.spread(bursty, steady, 3.0).grade is YES
    assert verdicts.spread(bursty, steady, 300.0).grade is HALF
    assert verdicts.spread(steady, bursty, 3.0).grade is NO
    assert verdicts.spread(steady, [], 3.0).grade is MISSING
