"""Tasks: one run at one point, all that decides its result, and nothing else. Figures that want the same run share it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol

from semistream.cost_model.profiles import NAMED_PROFILES
from semistream.cost_model.work import COUNTER_NAMES
from semistream.errors import BudgetError, ConfigError
from semistream.experiments.lengths import Length
from semistream.experiments.scenario import ARRIVAL_STEP_S, Scenario
from semistream.experiments.variant import Variant, composed
from semistream.simulation.config import SimulationConfig
from semistream.simulation.intervals import Interval, Report
from semistream.simulation.predicted import compare
from semistream.simulation.run import run

PAPER_DEVICE = "hdd2012"
DEVICES = ("hdd2012", "nvme")
KEPT_COUNTERS = (*COUNTER_NAMES, "hits", "misses", "drains", "lookups", "scans", "pages_read")
_FORMAT = 1  # of what results hold; another number runs everything anew

Result = dict[str, Any]


class Task(Protocol):
    """`perform` is a pure function of the task's fields, which `asdict` turns into JSON."""

    kind: ClassVar[str]

    @property
    def title(self) -> str:
        """What is being done, for the progress bar."""

    @property
    def effort(self) -> float:
        """About how long it takes, in no unit."""

    def perform(self) -> Result: ...


def config_of(task: Task) -> dict[str, Any]:
    return {"kind": task.kind, "format": _FORMAT, **asdict(task)}  # type: ignore[call-overload]


def key_of(task: Task) -> str:
    """The name of its result."""
    text = json.dumps(config_of(task), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True, kw_only=True)
class JoinTask:
    """A join on the virtual clock, warmed up and measured in intervals.

    `device` matters only to algorithms that decide by it, and to schedules; `join_task` fills it in, so that one run
    is charged to all devices where that is exact.
    """

    kind: ClassVar[str] = "join"
    scenario: Scenario
    variant: Variant
    length: Length
    device: str = PAPER_DEVICE
    first_row: int = 0

    @property
    def title(self) -> str:
        scenario = self.scenario
        return f"{self.variant.name}, {scenario.table_rows:,} rows, skew {scenario.skew:g}"

    @property
    def effort(self) -> float:
        """Stream rows, and the rows of R that are read; each step of a lookup counts for a hundred."""
        length, path = self.length, self.variant.composition.path
        rows = length.warm_up_rows + length.intervals * length.interval_rows
        cycles = length.warm_up_cycles + length.intervals * length.interval_cycles
        if path in ("chunks", "cycle"):
            cycles += 3
        per_row = 30.0 if path in ("single", "oldest") else 1.0
        return per_row * rows + cycles * self.scenario.table_rows

    def perform(self) -> Result:
        scenario, length = self.scenario, self.length
        with composed(self.variant) as name:
            config = SimulationConfig(
                algorithm=name,
                memory_bytes=scenario.memory_bytes,
                device=NAMED_PROFILES[self.device],
                first_row=self.first_row,
                **asdict(length),
            )
            try:
                report = run(
                    scenario.table,
                    scenario.stream,
                    config,
                    arrivals=scenario.schedule,
                    arrival_step_s=ARRIVAL_STEP_S,
                )
            except BudgetError as error:
                return {"left_out": error.message}
            return report_result(report) | {"predicted": self._predicted(report)}

    def _predicted(self, report: Report) -> dict[str, float]:
        """Rows/s by the cost model, for what the run held; where the run decided by its device, there only."""
        if self.scenario.arrivals:
            return {}
        scenario = self.scenario
        found = {}
        for name in DEVICES if not decides_by_device(self.variant) else (self.device,):
            comparison = compare(
                report,
                scenario.table,
                scenario.profile,
                device=NAMED_PROFILES[name],
                rows_per_key=float(scenario.rows_per_key),
                unmatched=scenario.absent,
                stream_row_bytes=float(scenario.stream_row_bytes),
                model=self.variant.algorithm,
            )
            found[name] = comparison.predicted_rows_per_s
        return found


def join_task(
    scenario: Scenario,
    variant: Variant,
    length: Length,
    *,
    device: str,
    first_row: int = 0,
) -> JoinTask:
    """The task whose result answers for `device`. However the memory was said, the same bytes are the same task."""
    scenario = replace(scenario, memory_share=1.0, memory_fixed_bytes=scenario.memory_bytes)
    matters = decides_by_device(variant) or bool(scenario.arrivals)
    return JoinTask(
        scenario=scenario,
        variant=variant,
        length=length,
        device=device if matters else PAPER_DEVICE,
        first_row=first_row,
    )


def decides_by_device(variant: Variant) -> bool:
    return variant.composition.path == "planned"


def report_result(report: Report) -> Result:
    return {
        "warm_up_rows": report.warm_up_rows,
        "waiting_rows": report.waiting_rows,
        "front_stage_keys": report.final.front_stage_keys,
        "front_stage_bytes": report.final.front_stage_bytes,
        "budget_peak_bytes": report.final.budget_peak_bytes,
        "intervals": [interval_result(each) for each in report.intervals],
    }


def interval_result(interval: Interval) -> dict[str, Any]:
    return {
        "rows": interval.rows,
        "rows_left": interval.rows_left,
        "seconds": interval.seconds,
        "idle_s": interval.idle_s,
        "row_s": interval.row_s,
        "buffer_row_s": interval.buffer_row_s,
        "waiting_max": interval.waiting_max,
        "counters": {name: getattr(interval.counters, name) for name in KEPT_COUNTERS},
    }


def check_device(name: str) -> None:
    if name not in NAMED_PROFILES:
        raise ConfigError(
            f"there is no device {name!r}.", hint=f"choose one of: {', '.join(NAMED_PROFILES)}."
        )
