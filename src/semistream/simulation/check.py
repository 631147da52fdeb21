"""Predicted against measured service rates on the virtual clock, over the papers' grid.

A run's counters do not depend on the device unless the algorithm decides by it, so that one run is charged to
all devices; `adaptive` runs once for each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from semistream.cost_model.profiles import HDD2012, NVME, DeviceProfile
from semistream.errors import BudgetError
from semistream.joins import ALGORITHMS
from semistream.simulation.config import SimulationConfig
from semistream.simulation.points import Point
from semistream.simulation.predicted import Comparison, compare
from semistream.simulation.run import run
from semistream.waiting_room.queue_room import waiting_row_bytes

ERROR_MAX = 0.15
SKEWS = (0.0, 0.5, 1.0)
MEMORY_SHARES = (0.01, 0.05, 0.10)
DEVICES = (HDD2012, NVME)
_INTERVALS = 5
_DRAINS = 20
_ROW_BYTES_IN_MEMORY = 28  # a stream row of 20 bytes and its key, as Arrow holds them


@dataclass(frozen=True, kw_only=True)
class CheckConfig:
    """What is checked. Rates are steady after `cached_keys_seen` stream rows for each key that fits the cache, twice as
    many where keys come in one by one."""

    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    skews: tuple[float, ...] = SKEWS
    memory_shares: tuple[float, ...] = MEMORY_SHARES
    devices: tuple[DeviceProfile, ...] = DEVICES
    table_rows: int = 500_000
    rows_per_key: int = 1
    cached_keys_seen: float = 40.0
    measured_rows_min: int = 20_000
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One algorithm at one point on one device."""

    point: Point
    comparison: Comparison

    @property
    def is_met(self) -> bool:
        return abs(self.comparison.error) <= ERROR_MAX

    def to_dict(self) -> dict[str, Any]:
        return {
            "skew": self.point.skew,
            "memory_share": self.point.memory_share,
            "table_rows": self.point.table_rows,
            "rows_per_key": self.point.rows_per_key,
            "met": self.is_met,
            **self.comparison.to_dict(),
        }


def check(config: CheckConfig, *, report: Callable[[str], None] = lambda text: None) -> Iterator[Checked]:
    """Every algorithm over the grid, those with too little memory left out."""
    for name in config.algorithms:
        for skew in config.skews:
            for share in config.memory_shares:
                point = Point(
                    table_rows=config.table_rows,
                    skew=skew,
                    memory_share=share,
                    rows_per_key=config.rows_per_key,
                    seed=config.seed,
                )
                report(f"{name}, skew {skew:g}, memory {share:.0%}")
                try:
                    yield from _checked(name, point, config)
                except BudgetError as error:
                    report(f"{name}, skew {skew:g}, memory {share:.0%}: left out, {error.message}")


def cases(config: CheckConfig) -> int:
    """How many times `report` is called, budgets apart."""
    return len(config.algorithms) * len(config.skews) * len(config.memory_shares)


def write(found: Sequence[Checked], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    met = sum(each.is_met for each in found)
    result = {
        "error_max": ERROR_MAX,
        "met": met,
        "checked": len(found),
        "worst_error": max((abs(each.comparison.error) for each in found), default=0.0),
        "points": [each.to_dict() for each in found],
        "leads": leads(found),
    }
    path.write_text(json.dumps(result, indent=2) + "\n")


def leads(found: Sequence[Checked]) -> list[dict[str, Any]]:
    """adaptive's measured rate as a share of the best of the others', at each point and on each device."""
    points: dict[tuple[str, float, float], dict[str, float]] = {}
    for each in found:
        place = (each.comparison.device, each.point.skew, each.point.memory_share)
        points.setdefault(place, {})[each.comparison.algorithm] = each.comparison.measured_rows_per_s
    judged = []
    for (device, skew, share), rates in points.items():
        others = {name: rate for name, rate in rates.items() if name != "adaptive"}
        if others and "adaptive" in rates:
            best = max(others, key=lambda name: others[name])
            judged.append(
                {
                    "device": device,
                    "skew": skew,
                    "memory_share": share,
                    "best_other": best,
                    "share_of_best_other": rates["adaptive"] / others[best],
                }
            )
    return judged


def _checked(name: str, point: Point, config: CheckConfig) -> Iterator[Checked]:
    decides = ALGORITHMS[name].path == "planned"
    for first in config.devices if decides else config.devices[:1]:
        measured = run(point.table, point.stream, steady_plan(name, point, config, first))
        for device in (first,) if decides else config.devices:
            comparison = compare(
                measured, point.table, point.profile, device=device, rows_per_key=point.rows_per_key
            )
            yield Checked(point=point, comparison=comparison)


def steady_plan(name: str, point: Point, config: CheckConfig, device: DeviceProfile) -> SimulationConfig:
    """Warm-up and measurement long enough for this algorithm."""
    chosen = ALGORITHMS[name]
    is_cached = chosen.front_stage != "none"
    share = chosen.shares.front_stage
    cached_bytes = point.memory_bytes * (1.0 if share is None else share)
    cached = is_cached * cached_bytes / (point.row_bytes * point.rows_per_key)
    waiting = point.memory_bytes / waiting_row_bytes(_ROW_BYTES_IN_MEMORY)
    seen = config.cached_keys_seen
    if chosen.path == "single":
        waiting, seen = 1.0, 2 * seen  # keys come in one by one, and the first time only their names
    if chosen.path == "planned":
        # All of the memory may become the room, where a row takes little more than itself.
        waiting = 2 * point.memory_bytes / _ROW_BYTES_IN_MEMORY
    # With hits, more rows come by while the room is exchanged once.
    turnover = int(waiting * (3 if is_cached else 1))
    measured = max(config.measured_rows_min, 2 * turnover)
    if (
        chosen.path == "batched"
    ):  # all reading is done when the room is full: an interval may end just before it
        measured = max(measured, _DRAINS * int(waiting))
    plan = SimulationConfig(
        algorithm=name,
        memory_bytes=point.memory_bytes,
        device=device,
        warm_up_rows=max(2 * turnover, int(seen * cached)),
        intervals=_INTERVALS,
        interval_rows=measured // _INTERVALS,
        batch_rows=min(4096, max(64, measured // 100)),
    )
    if chosen.path == "cycle":  # all rows come and go at one place of it, so whole cycles are measured
        return replace(plan, warm_up_rows=0, warm_up_cycles=3, interval_rows=1, interval_cycles=1)
    return plan
