"""Load shedding: more rows arrive than can be joined, and the dearest or the newest go to disk (000 Fig 7 and 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from semistream.core.metrics import METRIC_NAMES, JoinMetrics
from semistream.cost_model.models import MODELS
from semistream.cost_model.profiles import NAMED_PROFILES, DeviceProfile
from semistream.errors import ConfigError
from semistream.experiments.figure import Figure, Results, SizeName
from semistream.experiments.kinds.join_sweep import row_at
from semistream.experiments.lengths import Patience
from semistream.experiments.measures import Measured, counts_of
from semistream.experiments.rows import Row
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import KEPT_COUNTERS, PAPER_DEVICE, Result, key_of
from semistream.experiments.variant import Variant, composed
from semistream.joins import resolve_shape, start_join
from semistream.shedding.shedding_join import SheddingJoin, Strategy
from semistream.shedding.spill import Spill
from semistream.simulation.intervals import Estimate, difference
from semistream.waiting_room.queue_room import QueueRoom, waiting_row_bytes

_SPILL_BYTES = 8 << 30


@dataclass(frozen=True, kw_only=True)
class Shed:
    """A way of shedding: which rows, where the key that is looked up stands in the queue, and where rows go.

    to_disk: the disk that holds R writes them, and has to go back to R; else they go over a network at no cost.
    """

    label: str
    algorithm: str = "chybridjoin"
    strategy: Strategy = "considering"
    position: float = 1.0
    to_disk: bool = True
    clustered: bool = False


@dataclass(frozen=True, kw_only=True)
class SheddingTask:
    """`overload` times as many rows arrive in each iteration as the join serves in one without shedding."""

    kind: ClassVar[str] = "shedding"
    scenario: Scenario
    variant: Variant
    strategy: Strategy
    position: float
    overload: float
    exchanges: float
    intervals: int

    @property
    def title(self) -> str:
        return f"{self.variant.name}, {self.strategy}, lookup at {self.position:.0%}"

    @property
    def effort(self) -> float:
        return 60.0 * self.exchanges * self.waiting_rows

    @property
    def waiting_rows(self) -> float:
        return self.scenario.memory_bytes / waiting_row_bytes(self.scenario.stream_row_bytes + 8.0)

    def perform(self) -> Result:
        scenario = self.scenario
        table, stream = scenario.table, scenario.stream
        shape = resolve_shape(stream.schema, table, on="key", how="inner", columns=None, suffix="_r")
        spill = Spill(bytes_max=_SPILL_BYTES)
        memory = scenario.memory_bytes
        with (
            composed(self.variant) as name,
            start_join(
                table, shape, algorithm=name, lookup_position=self.position, memory_bytes=memory
            ) as join,
        ):
            if not isinstance(join.room, QueueRoom):
                raise ConfigError(f"{name} has no queue to shed from.", hint="choose hybridjoin.")
            shedding = SheddingJoin(join.loop, join.room, spill, strategy=self.strategy)
            batches = stream.batches(self._arrivals())
            wanted = int(self.exchanges * self.waiting_rows)
            # Full before anything is shed: the first rows are as many as the room takes.
            for _ in range(int(self.waiting_rows / self._arrivals()) + 1):
                shedding.offer(next(batches))
            intervals: list[dict[str, Any]] = []
            for number in range(self.intervals + 1):
                begun = JoinMetrics(**{each: getattr(join.metrics, each) for each in METRIC_NAMES})
                shed_rows, shed_bytes, iterations = shedding.shed_rows_total, spill.bytes, 0
                goal = wanted if number == 0 else wanted // self.intervals
                while _served(join.metrics) - _served(begun) < goal:
                    shedding.offer(next(batches))
                    for _ in shedding.iterate():
                        pass
                    iterations += 1
                counters = difference(join.metrics, begun)
                if number:
                    intervals.append(
                        {
                            "rows": _served(counters),
                            "iterations": iterations,
                            "arrived": iterations * self._arrivals(),
                            "shed_rows": shedding.shed_rows_total - shed_rows,
                            "shed_bytes": spill.bytes - shed_bytes,
                            "counters": {each: getattr(counters, each) for each in KEPT_COUNTERS},
                        }
                    )
            refused = shedding.refused_rows_total
        spill.close()
        return {"intervals": intervals, "refused_rows": refused}

    def _arrivals(self) -> int:
        """Rows of an iteration. Reading dominates it, so that this is close to a constant rate."""
        setting = self.scenario.setting(NAMED_PROFILES[PAPER_DEVICE])
        model = MODELS["chybridjoin"]
        return max(1, int(self.overload * model.predict(setting, self.scenario.memory_bytes).rows_per_step))


def _served(metrics: JoinMetrics) -> int:
    return metrics.rows_matched + metrics.rows_unmatched


@dataclass(frozen=True, kw_only=True)
class Shedding:
    """x is the place of the lookup in the queue, or the overload, as `over` says; the sweep's field plays no part."""

    ways: tuple[Shed, ...]
    over: str
    overload: float = 2.0
    exchanges: float = 2.0
    measure: str = "service rate"
    unit: str = "rows/s"

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[SheddingTask]:
        for _, _, task in self._places(figure, size):
            yield task

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        for way, x, task in self._places(figure, size):
            result = results.of(task)
            for device in figure.devices:
                place = row_at(figure, task.scenario, task.variant, device, x)
                place |= {"measure": self.measure, "unit": self.unit, "task": key_of(task)}
                found = service_rate(result, NAMED_PROFILES[device], to_disk=way.to_disk)
                yield Row(series=way.label, value=found.value, plus_minus=found.plus_minus, **place)
                if self.over == "overload" and way is self.ways[0]:
                    arrived = sum(each["arrived"] for each in result["intervals"])
                    served = sum(each["rows"] for each in result["intervals"])
                    yield Row(
                        series="arrival rate", value=found.value * arrived / served, source="given", **place
                    )

    def _places(self, figure: Figure, size: SizeName) -> Iterator[tuple[Shed, float, SheddingTask]]:
        sweep = figure.sizes[size]
        patience: Patience = sweep.patience
        for way in self.ways:
            for value in sweep.values:
                task = SheddingTask(
                    scenario=replace(sweep.base, clustered=way.clustered),
                    variant=Variant(algorithm=way.algorithm),
                    strategy=way.strategy,
                    position=value if self.over == "position" else way.position,
                    overload=value if self.over == "overload" else self.overload,
                    exchanges=self.exchanges,
                    intervals=patience.intervals,
                )
                yield way, sweep.x(value), task


def service_rate(result: Result, device: DeviceProfile, *, to_disk: bool) -> Measured:
    """Rows joined for each second. A shed batch costs the disk its bytes, and the way there and back to R."""

    def seconds(interval: dict[str, Any]) -> float:
        joining = device.seconds(counts_of(interval))
        if not (to_disk and interval["shed_rows"]):
            return joining
        return (
            joining
            + interval["shed_bytes"] / device.sequential_bytes_per_s
            + interval["iterations"] * (device.positioning_s / device.in_flight + device.request_s)
        )

    intervals = result["intervals"]
    rates = Estimate.of([each["rows"] / seconds(each) for each in intervals])
    total = sum(each["rows"] for each in intervals) / sum(seconds(each) for each in intervals)
    return Measured(value=total, plus_minus=rates.plus_minus)
