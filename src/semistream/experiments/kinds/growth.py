"""R grows while the join runs (000 Fig 9e): the service rate over time, before and after rows are appended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from semistream.cost_model.clock import VirtualClock
from semistream.cost_model.profiles import NAMED_PROFILES
from semistream.experiments.figure import Figure, Results, SizeName
from semistream.experiments.kinds.join_sweep import row_at
from semistream.experiments.lengths import Length, length_for
from semistream.experiments.measures import MEASURES
from semistream.experiments.rows import Row
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import PAPER_DEVICE, Result, decides_by_device, interval_result, key_of
from semistream.experiments.variant import Variant, composed
from semistream.joins import resolve_shape, start_join
from semistream.master_table.virtual import VirtualTable
from semistream.simulation.driver import Driver
from semistream.simulation.feed import Endless
from semistream.simulation.run import DeviceCosts

BEFORE, AFTER = 6, 14  # intervals
PER_EXCHANGE = 4  # of the waiting room


@dataclass(frozen=True, kw_only=True)
class GrowthTask:
    """`scenario` is what R becomes; it begins with half of its rows, and the stream asks for the keys there are.

    appends=False: R has all its rows from the beginning, for comparison.
    """

    kind: ClassVar[str] = "growth"
    scenario: Scenario
    variant: Variant
    length: Length
    device: str
    appends: bool = True

    @property
    def title(self) -> str:
        return f"{self.variant.name} while R grows"

    @property
    def effort(self) -> float:
        return float(
            self.length.warm_up_rows
            + (BEFORE + AFTER) * self.length.interval_rows
            + 6 * self.scenario.table_rows
        )

    def perform(self) -> Result:
        whole = replace(self.scenario, memory_fixed_bytes=self.scenario.memory_bytes)
        small = replace(whole, table_rows=whole.table_rows // 2) if self.appends else whole
        table, device = VirtualTable(small.table.config), NAMED_PROFILES[self.device]
        shape = resolve_shape(small.stream.schema, table, on="key", how="inner", columns=None, suffix="_r")
        costs, batch_rows = DeviceCosts(device, table.page_bytes), self.length.batch_rows
        intervals: list[dict[str, Any]] = []
        with (
            composed(self.variant) as name,
            start_join(table, shape, algorithm=name, memory_bytes=whole.memory_bytes, costs=costs) as join,
        ):
            clock = VirtualClock(device=device, work=join.metrics)
            driver = Driver(join, Endless(small.stream, batch_rows=batch_rows, first_row=0), clock)
            while join.metrics.rows_in < self.length.warm_up_rows:
                driver.advance()
            driver.cut()
            for number in range(BEFORE + AFTER):
                if number == BEFORE and self.appends:
                    table.append(whole.table_rows - small.table_rows)
                    driver.feed = Endless(whole.stream, batch_rows=batch_rows, first_row=0)
                while driver.rows < self.length.interval_rows:
                    driver.advance()
                intervals.append(interval_result(driver.cut()))
        return {"intervals": intervals}


@dataclass(frozen=True, kw_only=True)
class Growth:
    """x is the time in intervals of equally many stream rows; 0 is the moment of the append."""

    measure: str = "service rate"
    unit: str = "rows/s"

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[GrowthTask]:
        for _, _, task in _places(figure, size):
            yield task

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        for label, device, task in _places(figure, size):
            for number, interval in enumerate(results.of(task)["intervals"]):
                found = MEASURES[self.measure].of({"intervals": [interval]}, device)
                if found is not None:
                    x = float(number - BEFORE)
                    place = row_at(figure, task.scenario, task.variant, device, x)
                    yield Row(
                        series=label, measure=self.measure, unit=self.unit, value=found.value,
                        task=key_of(task), **place,
                    )  # fmt: skip


def _places(figure: Figure, size: SizeName) -> Iterator[tuple[str, str, GrowthTask]]:
    sweep = figure.sizes[size]
    for line in figure.series:
        scenario, variant = sweep.at(sweep.values[0], line)
        length = length_for(scenario, variant, sweep.patience)
        exchange = length.interval_rows * length.intervals / sweep.patience.exchanges
        length = replace(length, interval_rows=max(1, int(exchange / PER_EXCHANGE)))
        for appends in (True, False):
            for device in figure.devices:
                label = line.name if appends else f"{line.name}, all of R from the beginning"
                charged = device if decides_by_device(variant) else PAPER_DEVICE
                yield (
                    label,
                    device,
                    GrowthTask(
                        scenario=replace(
                            scenario, memory_share=1.0, memory_fixed_bytes=scenario.memory_bytes
                        ),
                        variant=variant,
                        length=length,
                        device=charged,
                        appends=appends,
                    ),
                )
