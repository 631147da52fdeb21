"""Load shedding: more rows arrive than can be joined, and the dearest or the newest go to disk (000 Fig 7 and 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from semistream.core.metrics import METRIC_NAMES, JoinMetrics
from semistream.cost_model import chybridjoin
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
_WRITE_BYTES = 1 << 20  # are gathered before the disk leaves R for them


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
    seen: float
    intervals: int

    @property
    def title(self) -> str:
        return f"{self.variant.name}, {self.strategy}, lookup at {self.position:.0%}"

    @property
    def effort(self) -> float:
        return 60.0 * self.exchanges * self.waiting_rows

    @property
    def waiting_rows(self) -> float:
        share = 1 - (self.variant.composition.shares.front_stage or 0.0)
        return share * self.scenario.memory_bytes / waiting_row_bytes(self.scenario.stream_row_bytes + 8.0)

    @property
    def cached_rows(self) -> float:
        share = self.variant.composition.shares.front_stage or 0.0
        return share * self.scenario.memory_bytes / self.scenario.row_bytes

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
            wanted = max(self.intervals, int(self.exchanges * self.waiting_rows))
            # Full before anything is shed: the first rows are as many as the room takes.
            for _ in range(int(self.waiting_rows / self._arrivals()) + 1):
                shedding.offer(next(batches))
            intervals: list[dict[str, Any]] = []
            warm_up = max(int(self.waiting_rows), int(self.seen * self.cached_rows))
            for number in range(self.intervals + 1):
                begun = JoinMetrics(**{each: getattr(join.metrics, each) for each in METRIC_NAMES})
                shed_rows, iterations = shedding.shed_rows_total, 0
                goal = warm_up if number == 0 else wanted // self.intervals
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
                            "counters": {each: getattr(counters, each) for each in KEPT_COUNTERS},
                        }
                    )
            refused = shedding.refused_rows_total
        spill.close()
        return {"intervals": intervals, "refused_rows": refused}

    def _arrivals(self) -> int:
        """Rows of an iteration. Reading dominates it, so that this is close to a constant rate."""
        scenario = self.scenario
        setting = scenario.setting(NAMED_PROFILES[PAPER_DEVICE])
        cached = (self.variant.composition.shares.front_stage or 0.0) * scenario.memory_bytes
        unshed = chybridjoin.predict(
            setting,
            float(scenario.memory_bytes),
            h=cached / setting.cached_key_bytes,
            unit_bytes=float(scenario.page_bytes),
            H_t=self.waiting_rows,
        )
        return max(1, int(self.overload * unshed.rows_per_step))


def _served(metrics: JoinMetrics) -> int:
    return metrics.rows_matched + metrics.rows_unmatched


@dataclass(frozen=True, kw_only=True)
class Shedding:
    """x is the place of the lookup in the queue, or the overload, as `over` says; the sweep's field plays no part."""

    ways: tuple[Shed, ...]
    over: str
    overload: float = 2.0
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
                found = service_rate(
                    result,
                    NAMED_PROFILES[device],
                    row_bytes=task.scenario.stream_row_bytes,
                    to_disk=way.to_disk,
                )
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
                    exchanges=patience.exchanges,
                    seen=patience.seen,
                    intervals=patience.intervals,
                )
                yield way, sweep.x(value), task


def service_rate(result: Result, device: DeviceProfile, *, row_bytes: float, to_disk: bool) -> Measured:
    """Rows joined for each second. What is shed costs the disk its bytes, and for every MiB the way there."""

    def seconds(interval: dict[str, Any]) -> float:
        joining = device.seconds(counts_of(interval))
        if not to_disk:
            return joining
        shed_bytes = interval["shed_rows"] * row_bytes
        return (
            joining
            + shed_bytes / device.sequential_bytes_per_s
            + shed_bytes / _WRITE_BYTES * (device.positioning_s + device.request_s)
        )

    intervals = result["intervals"]
    rates = Estimate.of([each["rows"] / seconds(each) for each in intervals])
    total = sum(each["rows"] for each in intervals) / sum(seconds(each) for each in intervals)
    return Measured(value=total, plus_minus=rates.plus_minus)
