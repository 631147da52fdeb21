"""Verdicts on claims: pure functions of numbers. Which rule judges a claim, and with what tolerance, is in expected.toml.

| rule | reproduced | direction only | not reproduced |
|---|---|---|---|
| ratio | measured / claimed within 1 +- tolerance, on the claimed side of 1 | on that side | on the other side |
| level | within claimed * (1 +- tolerance) | within claimed * (1 +- 3 tolerance) | farther off |
| above | first > second everywhere | at most places, and on (geometric) average | else |
| rises, falls | every step in that direction, or less than `slack` against it | the last against the first | else |
| one_maximum | rises to an inner maximum, then falls, with `slack` | the maximum is inside, with dips | at an end |
| argmax_near | the maximum within `tolerance` of the claimed place | the claimed place is within 5 % of the maximum | else |
| crossing | first passes second at the claimed x, within a factor of 1 + tolerance | somewhere else | nowhere |
| close | predicted within `tolerance` of measured at all places | at most places | else |
| spread | first varies at least `claimed` times as much as second | it varies more | else |
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Grade(Enum):
    REPRODUCED = "reproduced"
    DIRECTION = "direction only"
    NOT = "not reproduced"
    MISSING = "not measured"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`measured` says in words what was found."""

    grade: Grade
    measured: str
    value: float = math.nan


Curve = Sequence[tuple[float, float]]
BEST_SHARE = 0.95  # of the maximum is as good as the maximum
DIRECTION_FACTOR = 3  # tolerances that a level may be off and still count as direction


def ratio(measured: float, claimed: float, *, tolerance: float) -> Verdict:
    if not math.isfinite(measured):
        return Verdict(grade=Grade.MISSING, measured="nothing was measured there")
    same_side = claimed == 1 or (measured > 1) == (claimed > 1)
    near = abs(measured / claimed - 1) <= tolerance
    grade = _graded(near and same_side, same_side and claimed != 1)
    return Verdict(grade=grade, measured=f"{measured:.3g} times", value=measured)


def level(measured: float, claimed: float, *, tolerance: float) -> Verdict:
    if not math.isfinite(measured):
        return Verdict(grade=Grade.MISSING, measured="nothing was measured there")
    off = abs(measured / claimed - 1)
    grade = _graded(off <= tolerance, off <= DIRECTION_FACTOR * tolerance)
    return Verdict(grade=grade, measured=f"{measured:.3g}", value=measured)


def above(first: Curve, second: Curve) -> Verdict:
    ratios = [each for _, each in over(first, second)]
    if not ratios:
        return _nothing()
    won = sum(each > 1 for each in ratios)
    average = statistics.geometric_mean(ratios)
    return Verdict(
        grade=_graded(won == len(ratios), 2 * won > len(ratios) and average > 1),
        measured=f"above at {won} of {len(ratios)} places, {min(ratios):.3g} to {max(ratios):.3g} times",
        value=average,
    )


def rises(curve: Curve, *, slack: float) -> Verdict:
    return _moves(curve, slack=slack, sign=1)


def falls(curve: Curve, *, slack: float) -> Verdict:
    return _moves(curve, slack=slack, sign=-1)


def one_maximum(curve: Curve, *, slack: float) -> Verdict:
    if len(curve) < 3:
        return _nothing()
    values = [value for _, value in sorted(curve)]
    peak = max(range(len(values)), key=values.__getitem__)
    inside = 0 < peak < len(values) - 1
    steps = [after / before for before, after in itertools.pairwise(values)]
    clean = all(step >= 1 - slack for step in steps[:peak]) and all(
        step <= 1 + slack for step in steps[peak:]
    )
    place = sorted(curve)[peak][0]
    where = f"the maximum is at {place:g}" + ("" if inside else ", at the end of what was tried")
    return Verdict(
        grade=_graded(inside and clean, inside),
        measured=where + ("" if clean else ", and the curve has dips"),
        value=place,
    )


def argmax_near(curve: Curve, claimed: float, *, tolerance: float) -> Verdict:
    """tolerance is a distance on the x axis."""
    if not curve:
        return _nothing()
    place, best = max(curve, key=lambda point: point[1])
    nearest = min(curve, key=lambda point: abs(point[0] - claimed))
    share = nearest[1] / best
    return Verdict(
        grade=_graded(abs(place - claimed) <= tolerance, share >= BEST_SHARE),
        measured=f"best at {place:g}; {nearest[0]:g} reaches {share:.1%} of that",
        value=place,
    )


def crossing(first: Curve, second: Curve, claimed: float, *, tolerance: float) -> Verdict:
    """Where `first` goes from below `second` to above it."""
    ratios = over(first, second)
    for (low, before), (high, after) in itertools.pairwise(ratios):
        if before <= 1 < after:
            part = math.log(1 / before) / math.log(after / before) if before < 1 else 0.0
            place = low * (high / low) ** part
            near = 1 / (1 + tolerance) <= place / claimed <= 1 + tolerance
            return Verdict(grade=_graded(near, True), measured=f"they cross at {place:.3g}", value=place)
    if not ratios:
        return _nothing()
    side = "above" if ratios[0][1] > 1 else "below"
    return Verdict(grade=Grade.NOT, measured=f"the first is {side} the second wherever both were measured")


def close(pairs: Sequence[tuple[float, float]], *, tolerance: float) -> Verdict:
    """pairs: predicted and measured."""
    if not pairs:
        return _nothing()
    errors = [abs(predicted / measured - 1) for predicted, measured in pairs]
    met = sum(error <= tolerance for error in errors)
    return Verdict(
        grade=_graded(met == len(errors), 2 * met > len(errors)),
        measured=f"{met} of {len(errors)} predictions within {tolerance:.0%}; the worst is off by {max(errors):.1%}",
        value=max(errors),
    )


def spread(first: Curve, second: Curve, claimed: float) -> Verdict:
    """Standard deviation over mean of each."""
    if min(len(first), len(second)) < 2:
        return _nothing()
    mine, other = (_variation([value for _, value in curve]) for curve in (first, second))
    times = mine / other if other > 0 else math.inf
    return Verdict(
        grade=_graded(times >= claimed, times > 1), measured=f"varies {times:.3g} times as much", value=times
    )


def over(first: Curve, second: Curve) -> list[tuple[float, float]]:
    """first / second wherever both have a value."""
    under = dict(second)
    return [(x, value / under[x]) for x, value in sorted(first) if under.get(x, 0.0) > 0]


def _moves(curve: Curve, *, slack: float, sign: int) -> Verdict:
    if len(curve) < 2:
        return _nothing()
    values = [value for _, value in sorted(curve)]
    steps = [(after / before) ** sign for before, after in itertools.pairwise(values)]
    whole = (values[-1] / values[0]) ** sign
    return Verdict(
        grade=_graded(all(step >= 1 - slack for step in steps) and whole > 1, whole > 1),
        measured=f"from {values[0]:.3g} to {values[-1]:.3g}",
        value=values[-1] / values[0],
    )


def _variation(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    return statistics.pstdev(values) / mean if mean > 0 else math.nan


def _graded(is_reproduced: bool, is_direction: bool) -> Grade:
    if is_reproduced:
        return Grade.REPRODUCED
    return Grade.DIRECTION if is_direction else Grade.NOT


def _nothing() -> Verdict:
    return Verdict(grade=Grade.MISSING, measured="nothing was measured there")
