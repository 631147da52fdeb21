"""Every algorithm at every point of skew x memory x rows per key: on the wall clock, over a page store; and on the virtual
clock of every device profile, over a virtual table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from semistream.cost_model.profiles import DeviceProfile
from semistream.errors import BudgetError
from semistream.joins import ALGORITHMS
from semistream.simulation.check import CheckConfig, steady_plan
from semistream.simulation.config import SimulationConfig
from semistream.simulation.core_data import Say, grid_store
from semistream.simulation.points import Point
from semistream.simulation.run import run

NOISE = 0.03


@dataclass(frozen=True, kw_only=True)
class GridConfig:
    """A smaller table than the benchmark's, so that every join gets warm at every point in a few seconds; it
    lies in the system's cache, so that reading costs what it costs a processor.

    warm_up_rows_per_key: stream rows for each key that fits the memory, but no longer than `warm_up_s`.
    """

    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    skews: tuple[float, ...] = (0.0, 0.5, 0.8, 1.0, 1.2)
    memory_shares: tuple[float, ...] = (0.01, 0.05, 0.10)
    rows_per_key: tuple[int, ...] = (1, 4)
    table_rows: int = 1_000_000
    warm_up_rows_per_key: int = 20
    warm_up_s: float = 3.0
    rounds: int = 3
    round_s: float = 0.3
    seed: int = 0

    @property
    def points(self) -> list[Point]:
        return [
            Point(table_rows=self.table_rows, skew=skew, memory_share=share, rows_per_key=m, seed=self.seed)
            for m in self.rows_per_key
            for skew in self.skews
            for share in self.memory_shares
        ]


def measure_grid(directory: Path, config: GridConfig, *, say: Say) -> dict[str, Any]:
    """On the wall clock: the rates of all algorithms at every point, and adaptive's as a share of the best of the
    others'. The order of the algorithms is turned round from point to point."""
    points: list[dict[str, Any]] = []
    for number, point in enumerate(config.points):
        rates: dict[str, float] = {}
        for name in config.algorithms if number % 2 == 0 else config.algorithms[::-1]:
            say(f"grid: point {number + 1} of {len(config.points)}, {name}")
            rate = _rate(directory, point, name, config)
            if rate is not None:
                rates[name] = rate
        points.append({**_place(point), **_judged(rates)})
    return _summary(config, points)


def measure_virtual_grid(devices: Sequence[DeviceProfile], config: GridConfig, *, say: Say) -> dict[str, Any]:
    """The same on the virtual clock. What an algorithm does not decide by the device is run once for all of them."""
    points: list[dict[str, Any]] = []
    for number, point in enumerate(config.points):
        plan_for = CheckConfig(table_rows=point.table_rows, rows_per_key=point.rows_per_key)
        rates: dict[str, dict[str, float]] = {device.name: {} for device in devices}
        for name in config.algorithms:
            decides = ALGORITHMS[name].path == "planned"
            for first in devices if decides else devices[:1]:
                say(f"virtual grid: point {number + 1} of {len(config.points)}, {name}")
                try:
                    report = run(point.table, point.stream, steady_plan(name, point, plan_for, first))
                except BudgetError:
                    continue
                for device in (first,) if decides else devices:
                    rates[device.name][name] = report.rows_per_s_on(device)
        for device in devices:
            points.append({"device": device.name, **_place(point), **_judged(rates[device.name])})
    return _summary(config, points)


def _place(point: Point) -> dict[str, Any]:
    return {"skew": point.skew, "memory_share": point.memory_share, "rows_per_key": point.rows_per_key}


def _summary(config: GridConfig, points: list[dict[str, Any]]) -> dict[str, Any]:
    shares = [each["share_of_best_other"] for each in points if each["share_of_best_other"] is not None]
    return {
        "table_rows": config.table_rows,
        "points": points,
        "adaptive_leads": sum(share >= 1 - NOISE for share in shares),
        "compared": len(shares),
        "lowest_share": min(shares, default=None),
    }


def _judged(rates: dict[str, float]) -> dict[str, Any]:
    others = {name: rate for name, rate in rates.items() if name != "adaptive"}
    best = max(others, key=lambda name: others[name], default=None)
    share = rates["adaptive"] / others[best] if best and "adaptive" in rates else None
    return {"rows_s": rates, "best_other": best, "share_of_best_other": share}


def _rate(directory: Path, point: Point, name: str, config: GridConfig) -> float | None:
    """The median over rounds; None if the memory is too little."""
    table = grid_store(directory, point.table.config)
    plan = SimulationConfig(
        algorithm=name,
        memory_bytes=point.memory_bytes,
        clock="wall",
        warm_up_rows=config.warm_up_rows_per_key
        * point.memory_bytes
        // point.row_bytes
        // point.rows_per_key,
        warm_up_s=config.warm_up_s,
        intervals=config.rounds,
        interval_rows=1 << 40,
        interval_s=config.round_s,
        batch_rows=1024 if ALGORITHMS[name].path == "single" else 8192,
    )
    if (
        ALGORITHMS[name].path == "cycle"
    ):  # all rows come and go at one place of it, so whole cycles are measured
        plan = replace(plan, warm_up_rows=0, warm_up_cycles=2, warm_up_s=math.inf, interval_cycles=1)
    try:
        report = run(table, point.stream, plan)
    except BudgetError:
        return None
    rates = sorted(each.service_rows_per_s for each in report.intervals)
    return rates[len(rates) // 2]
