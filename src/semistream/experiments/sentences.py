"""Sentences that the numbers support: what another device makes of a conclusion, and where `adaptive` stands."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from semistream.experiments.claims import Judged, curves_on, ratio_at
from semistream.experiments.figure import Figure
from semistream.experiments.rows import Row
from semistream.experiments.tasks import PAPER_DEVICE
from semistream.experiments.verdicts import Curve, over

LOWER_IS_BETTER = ("processing time", "waiting time", "cost", "memory")
OURS = "adaptive"
_SHRUNK = 0.75  # of a lead is worth a sentence


def device_sentences(figure: Figure, rows: Sequence[Row], judged: Sequence[Judged]) -> list[str]:
    """Where another device than the paper's turns a conclusion around, or makes a lead much smaller."""
    found: list[str] = []
    for device in figure.devices:
        if device == PAPER_DEVICE:
            continue
        before, after = curves_on(rows, PAPER_DEVICE), curves_on(rows, device)
        for each in judged:
            sentence = _of_claim(each, before, after, device)
            if sentence and sentence not in found:
                found.append(sentence)
        winner = _of_winners(figure, rows, before, after, device)
        if winner:
            found.append(winner)
    return found


def adaptive_sentences(figure: Figure, rows: Sequence[Row]) -> list[str]:
    """How `adaptive` compares with the best of the others, and with the bound, on each device."""
    found = []
    for device in figure.devices:
        curves = curves_on([row for row in rows if row.source in ("measured", "bound")], device)
        mine, others = curves.get(OURS, []), _rivals(rows, device)
        best = _best(others, figure)
        times = [_better(figure, ratio) for _, ratio in over(mine, best)]
        if not times:
            continue
        won = sum(each >= 1 for each in times)
        text = (
            f"On {device}, adaptive is ahead of the best of the others at {won} of {len(times)} places "
            f"({min(times):.3g} to {max(times):.3g} times as good"
        )
        bound = [each for row in rows if row.source == "bound" for each in [row.series]]
        reached = [ratio for _, ratio in over(mine, curves[bound[0]])] if bound else []
        text += (
            f"), and reaches {min(reached):.0%} to {max(reached):.0%} of the clairvoyant bound."
            if reached
            else ")."
        )
        found.append(text)
    return found


def _of_claim(each: Judged, before: dict[str, Curve], after: dict[str, Curve], device: str) -> str:
    claim = each.claim
    if claim.rule not in ("ratio", "above") or not claim.second:
        return ""
    places = [x for x, _ in over(after.get(claim.first, []), after.get(claim.second, []))]
    if claim.rule == "ratio" and places:
        at = max(places) if claim.at is None else claim.at
        places = [min(places, key=lambda x: abs(x - at))]
    there = [ratio_at(before, claim.first, claim.second, x) for x in places]
    here = [ratio_at(after, claim.first, claim.second, x) for x in places]
    pairs = [(old, new) for old, new in zip(there, here, strict=True) if old == old and new == new]
    if not pairs:
        return ""
    old, new = (statistics.geometric_mean(values) for values in zip(*pairs, strict=True))
    where = f"at {places[0]:g}" if len(places) == 1 else f"on average over {len(pairs)} places"
    if (old > 1) != (new > 1):
        return (
            f"{device} turns this around: {claim.first} over {claim.second} is {new:.3g} {where}, where it is {old:.3g} "
            f"on {PAPER_DEVICE}."
        )
    if old > 1 and new - 1 < _SHRUNK * (old - 1):
        return f"On {device} the lead shrinks: {claim.first} over {claim.second} is {new:.3g} {where}, not {old:.3g}."
    return ""


def _of_winners(
    figure: Figure, rows: Sequence[Row], before: dict[str, Curve], after: dict[str, Curve], device: str
) -> str:
    """The best of the papers' algorithms, where it is another one."""
    there, here = _winners(_rivals(rows, PAPER_DEVICE), figure), _winners(_rivals(rows, device), figure)
    changed = [x for x in there if x in here and here[x] != there[x]]
    if not changed:
        return ""
    x = max(changed)
    lead = _better(figure, ratio_at(after, here[x], there[x], x))
    return (
        f"The best of the papers' algorithms is another one on {device} at {len(changed)} of {len(there)} places: at "
        f"{x:g} it is {here[x]}, {lead:.3g} times as good as {there[x]}, which is the best on {PAPER_DEVICE}."
    )


def _rivals(rows: Sequence[Row], device: str) -> dict[str, Curve]:
    measured = [row for row in rows if row.source == "measured" and row.algorithm != OURS]
    return curves_on(measured, device)


def _winners(curves: dict[str, Curve], figure: Figure) -> dict[float, str]:
    at: dict[float, dict[str, float]] = {}
    for name, curve in curves.items():
        for x, value in curve:
            at.setdefault(x, {})[name] = value
    choose = min if figure.kind.measure in LOWER_IS_BETTER else max
    return {x: choose(found, key=found.__getitem__) for x, found in at.items()}


def _best(curves: dict[str, Curve], figure: Figure) -> Curve:
    return [(x, dict(curves[name])[x]) for x, name in _winners(curves, figure).items()]


def _better(figure: Figure, ratio: float) -> float:
    """Above 1 is better, whatever is measured."""
    if figure.kind.measure not in LOWER_IS_BETTER:
        return ratio
    return 1 / ratio if ratio > 0 else math.inf
