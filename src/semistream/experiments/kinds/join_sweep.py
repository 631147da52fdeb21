"""Joins at every point of a sweep, and one number read off each of them: most of the papers' figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from semistream.cost_model.profiles import NAMED_PROFILES
from semistream.experiments.bound import clairvoyant
from semistream.experiments.figure import Figure, Results, Series, SizeName
from semistream.experiments.lengths import length_for
from semistream.experiments.measures import MEASURES
from semistream.experiments.rows import Row
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import JoinTask, join_task, key_of
from semistream.experiments.variant import Variant

BOUND = "clairvoyant bound"


@dataclass(frozen=True, kw_only=True)
class Point:
    """A series on a device at a value of the sweep."""

    line: Series
    device: str
    x: float
    scenario: Scenario
    task: JoinTask


@dataclass(frozen=True, kw_only=True)
class JoinSweep:
    """`measure` is a name in MEASURES. predicted: what the cost model says of the same run, beside it.

    bound: the clairvoyant's rate or hit share at the same points, where the measure is one of the two.
    """

    measure: str = "service rate"
    predicted: bool = False
    bound: bool = False

    @property
    def unit(self) -> str:
        return MEASURES[self.measure].unit

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[JoinTask]:
        for point in points(figure, size):
            yield point.task

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        for point in points(figure, size):
            result = results.of(point.task)
            found = MEASURES[self.measure].of(result, point.device)
            if found is None:
                continue
            row = row_at(figure, point.scenario, point.line.variant, point.device, point.x)
            row |= {
                "series": point.line.name,
                "measure": self.measure,
                "unit": self.unit,
                "task": key_of(point.task),
            }
            yield Row(value=found.value, plus_minus=found.plus_minus, **row)
            if self.predicted and point.device in result["predicted"]:
                yield Row(
                    value=self._of_rate(result["predicted"][point.device]), source="predicted",
                    **row | {"series": f"{point.line.name}, predicted"},
                )  # fmt: skip
        if self.bound:
            yield from self._bounds(figure, size)

    def _of_rate(self, rows_per_s: float) -> float:
        return 1e6 / rows_per_s if self.measure == "cost" else rows_per_s

    def _bounds(self, figure: Figure, size: SizeName) -> Iterator[Row]:
        """Of the scenario without the changes of single series."""
        sweep, line = figure.sizes[size], Series(variant=figure.series[0].variant)
        for device in figure.devices:
            for value in sweep.values:
                scenario, variant = sweep.at(value, line)
                found = clairvoyant(scenario, NAMED_PROFILES[device])
                yield Row(
                    value=found.hit_ratio if "share" in self.measure else found.rows_per_s,
                    source="bound",
                    series=BOUND, measure=self.measure, unit=self.unit,
                    **row_at(figure, scenario, variant, device, sweep.x(value)) | {"algorithm": "clairvoyant"},
                )  # fmt: skip


def points(figure: Figure, size: SizeName) -> Iterator[Point]:
    sweep = figure.sizes[size]
    for line in figure.series:
        for value in sweep.values:
            scenario, variant = sweep.at(value, line)
            length = length_for(scenario, variant, sweep.patience)
            for device in figure.devices:
                yield Point(
                    line=line,
                    device=device,
                    x=sweep.x(value),
                    scenario=scenario,
                    task=join_task(scenario, variant, length, device=device),
                )


def row_at(figure: Figure, scenario: Scenario, variant: Variant, device: str, x: float) -> dict[str, Any]:
    """What a row says of its place."""
    return {
        "paper": figure.paper,
        "figure": figure.name,
        "device": device,
        "x": x,
        "algorithm": variant.algorithm,
        "table_rows": scenario.table_rows,
        "memory_bytes": scenario.memory_bytes,
        "skew": scenario.skew,
    }
