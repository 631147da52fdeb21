"""Facts of the streams themselves: who is asked for how often (001 Fig 8), and when rows arrive (001 Fig 9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from semistream.experiments.figure import Figure, Results, SizeName
from semistream.experiments.kinds.join_sweep import row_at
from semistream.experiments.rows import Row
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import Result, key_of
from semistream.workloads.registry import make_arrivals

DRAWN = "drawn"
EXACT = "by Zipf's law"


@dataclass(frozen=True, kw_only=True)
class SalesTask:
    """The share of `rows` stream rows that the most popular keys have; `shares` of all keys."""

    kind: ClassVar[str] = "sales"
    scenario: Scenario
    rows: int
    shares: tuple[float, ...]

    @property
    def title(self) -> str:
        return f"{self.rows:,} keys drawn"

    @property
    def effort(self) -> float:
        return float(self.rows)

    def perform(self) -> Result:
        drawn = self.scenario.key_source.keys(batch=0, rows=self.rows)
        counts = np.sort(np.bincount(drawn, minlength=self.scenario.key_count))[::-1]
        below = np.concatenate(([0], np.cumsum(counts))) / self.rows
        keys = self.scenario.key_count
        return {"top": [float(below[round(share * keys)]) for share in self.shares]}


@dataclass(frozen=True, kw_only=True)
class Sales:
    """x is the share of the products, the most popular first, in the sweep's values."""

    rows_per_key: float = 20.0
    measure: str = "share of the sales"
    unit: str = "of all"

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[SalesTask]:
        sweep = figure.sizes[size]
        rows = int(self.rows_per_key * sweep.base.key_count)
        yield SalesTask(scenario=sweep.base, rows=rows, shares=sweep.values)

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        sweep, profile = figure.sizes[size], figure.sizes[size].base.profile
        for task in self.tasks(figure, size):
            for share, sold in zip(sweep.values, results.of(task)["top"], strict=True):
                place = row_at(figure, sweep.base, figure.series[0].variant, "", sweep.x(share))
                place |= {"measure": self.measure, "unit": self.unit}
                yield Row(series=DRAWN, value=sold, task=key_of(task), **place)
                exact = float(profile.top(share * sweep.base.key_count))
                yield Row(series=EXACT, value=exact, source="given", **place)


@dataclass(frozen=True, kw_only=True)
class ArrivalsTask:
    """Rows of each of `windows` windows of `window_s` seconds, by a schedule with a mean of `rows_per_s`."""

    kind: ClassVar[str] = "arrivals"
    schedule: str
    rows_per_s: float
    windows: int
    window_s: int
    seed: int = 0

    @property
    def title(self) -> str:
        return f"{self.schedule} arrivals"

    @property
    def effort(self) -> float:
        return float(self.windows)

    def perform(self) -> Result:
        arrivals = make_arrivals(self.schedule, rows_per_s=self.rows_per_s, step_s=1.0, seed=self.seed)
        wanted, counts = self.windows * self.window_s, np.empty(0, np.int64)
        for part in arrivals.counts():
            counts = np.concatenate((counts, part))
            if counts.size >= wanted:
                break
        return {"rows": counts[:wanted].reshape(self.windows, self.window_s).sum(axis=1).tolist()}


@dataclass(frozen=True, kw_only=True)
class Flow:
    """x is the time in seconds; the sweep's values are the windows' length."""

    schedules: tuple[str, ...] = ("bursty", "poisson")
    windows: int = 120
    measure: str = "arrival rate"
    unit: str = "rows/s"

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[ArrivalsTask]:
        sweep = figure.sizes[size]
        for window_s in sweep.values:
            for schedule in self.schedules:
                yield ArrivalsTask(
                    schedule=schedule,
                    rows_per_s=sweep.base.rows_per_s,
                    windows=self.windows,
                    window_s=int(window_s),
                    seed=sweep.base.seed,
                )

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        for task in self.tasks(figure, size):
            for number, rows in enumerate(results.of(task)["rows"]):
                yield Row(
                    paper=figure.paper, figure=figure.name, device="",
                    series=f"{task.schedule}, windows of {task.window_s} s",
                    x=float(number), value=rows / task.window_s,
                    measure=self.measure, unit=self.unit, task=key_of(task),
                )  # fmt: skip
