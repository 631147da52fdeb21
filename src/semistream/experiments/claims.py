"""The papers' claims from expected.toml, judged by the rows of their figures."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from semistream.errors import ConfigError
from semistream.experiments import verdicts
from semistream.experiments.paper_bounds import PAPER_BOUNDS
from semistream.experiments.rows import Row
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import PAPER_DEVICE
from semistream.experiments.verdicts import Curve, Verdict

RULES = (
    "ratio",
    "level",
    "above",
    "rises",
    "falls",
    "one_maximum",
    "argmax_near",
    "crossing",
    "close",
    "spread",
)
_NEEDS = {
    "ratio": ("first", "second", "claimed"),
    "level": ("first", "claimed"),
    "above": ("first", "second"),
    "rises": ("first",),
    "falls": ("first",),
    "one_maximum": ("first",),
    "argmax_near": ("first", "claimed"),
    "crossing": ("first", "second", "claimed"),
    "close": (),
    "spread": ("first", "second", "claimed"),
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """says: in a sentence. rule: in RULES. first, second: series; with `second`, rises and falls judge first / second.

    at: the place on the x axis, in the paper's unit; None: the highest there is. Elsewhere nothing is judged. against: with it, a ratio is that of `first`
    at the one place over `first` at the other. claimed: the paper's number.
    tolerance, slack: of the rule. bound: in PAPER_BOUNDS, what the paper's own cost model allows at most.
    device: where it is judged; the paper's machine had a hard disk.
    """

    says: str
    rule: str
    first: str = ""
    second: str = ""
    at: float | None = None
    against: float | None = None
    claimed: float = math.nan
    tolerance: float = 0.2
    slack: float = 0.03
    bound: str = ""
    device: str = PAPER_DEVICE

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(f"there is no rule {self.rule!r}.", hint=f"choose one of: {', '.join(RULES)}.")
        for name in _NEEDS[self.rule]:
            if name == "second" and self.against is not None:
                continue
            if getattr(self, name) in ("", None) or getattr(self, name) != getattr(self, name):
                raise ConfigError(
                    f"the claim {self.says!r} lacks {name!r}.", hint=f"the rule {self.rule} needs it."
                )
        if self.bound and self.bound not in PAPER_BOUNDS:
            raise ConfigError(
                f"there is no bound {self.bound!r}.", hint=f"choose one of: {', '.join(PAPER_BOUNDS)}."
            )


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim, the verdict on it, and what the paper's cost model would allow (NaN: that is not known)."""

    claim: Claim
    verdict: Verdict
    bound: float = math.nan

    @property
    def is_unreachable(self) -> bool:
        return self.bound < self.claim.claimed

    @property
    def text(self) -> str:
        """What was measured, and why the claim may not hold."""
        text = f"Measured: {self.verdict.measured}."
        if self.is_unreachable:
            text += (
                f" The claim of {self.claim.claimed:g} is unreachable under the paper's own cost model: "
                f"{PAPER_BOUNDS[self.claim.bound].says} Bound: {self.bound:.3g}."
            )
        elif self.bound == self.bound:
            text += f" The paper's own cost model allows at most {self.bound:.3g}."
        return text


Expected = dict[str, tuple[Claim, ...]]


def read_expected(path: Path) -> Expected:
    """Claims by figure id."""
    with path.open("rb") as file:
        content = tomllib.load(file)
    return {
        f"{paper}/{figure}": tuple(_claim(each, f"{paper}.{figure}") for each in claims)
        for paper, figures in content.items()
        for figure, claims in figures.items()
    }


def judge(claim: Claim, rows: Sequence[Row], scenario_at: dict[float, Scenario]) -> Judged:
    """scenario_at: of each x, for the bound."""
    curves = curves_on(rows, claim.device)
    x = _place(claim, curves, claim.at)
    bound = math.nan
    if claim.bound and x in scenario_at:
        bound = PAPER_BOUNDS[claim.bound].value(scenario_at[x])
    return Judged(claim=claim, verdict=_verdict(claim, curves, rows, x), bound=bound)


def curves_on(rows: Sequence[Row], device: str) -> dict[str, Curve]:
    """By series; rows without a device belong to all."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.device in ("", device):
            curves.setdefault(row.series, []).append((row.x, row.value))
    return {name: sorted(curve) for name, curve in curves.items()}


def ratio_at(curves: dict[str, Curve], first: str, second: str, x: float) -> float:
    return dict(verdicts.over(curves.get(first, []), curves.get(second, []))).get(x, math.nan)


def _place(claim: Claim, curves: dict[str, Curve], at: float | None) -> float:
    places = [x for x, _ in curves.get(claim.first, [])]
    if not places:
        return math.nan
    if at is None:
        return max(places)
    nearest = min(places, key=lambda x: abs(x - at))
    return nearest if math.isclose(nearest, at, rel_tol=0.01) else math.nan


def _verdict(claim: Claim, curves: dict[str, Curve], rows: Sequence[Row], x: float) -> Verdict:
    first, second = curves.get(claim.first, []), curves.get(claim.second, [])
    curve = verdicts.over(first, second) if claim.second else first
    if claim.rule == "ratio":
        found = ratio_at(curves, claim.first, claim.second, x)
        if claim.against is not None:
            at = dict(first)
            found = at.get(x, math.nan) / at.get(_place(claim, curves, claim.against), math.nan)
        return verdicts.ratio(found, claim.claimed, tolerance=claim.tolerance)
    if claim.rule == "level":
        return verdicts.level(dict(first).get(x, math.nan), claim.claimed, tolerance=claim.tolerance)
    if claim.rule == "above":
        return verdicts.above(first, second)
    if claim.rule in ("rises", "falls"):
        moves = verdicts.rises if claim.rule == "rises" else verdicts.falls
        return moves(curve, slack=claim.slack)
    if claim.rule == "one_maximum":
        return verdicts.one_maximum(curve, slack=claim.slack)
    if claim.rule == "argmax_near":
        return verdicts.argmax_near(curve, claim.claimed, tolerance=claim.tolerance)
    if claim.rule == "crossing":
        return verdicts.crossing(first, second, claim.claimed, tolerance=claim.tolerance)
    if claim.rule == "spread":
        return verdicts.spread(first, second, claim.claimed)
    return verdicts.close(_pairs(rows, claim.device), tolerance=claim.tolerance)


def _pairs(rows: Sequence[Row], device: str) -> list[tuple[float, float]]:
    """Predicted and measured, for every place that has both."""
    places: dict[tuple[str, float], dict[str, float]] = {}
    for row in rows:
        if row.device in ("", device):
            places.setdefault((row.series.removesuffix(", predicted"), row.x), {})[row.source] = row.value
    return [
        (found["predicted"], found["measured"])
        for found in places.values()
        if {"predicted", "measured"} <= set(found)
    ]


def _claim(values: dict[str, Any], where: str) -> Claim:
    unknown = set(values) - {field.name for field in fields(Claim)}
    if unknown:
        raise ConfigError(
            f"expected.toml, {where}: there is no {', '.join(sorted(unknown))}.",
            hint=f"a claim has {', '.join(field.name for field in fields(Claim))}.",
        )
    return Claim(**values)
