"""The memory that an algorithm needs for a stream of so many rows a second (003 Fig 4).

Measured by turning the question round: service rates are measured for several memory sizes, and the memory for a rate is
read off the curve between them, which is close to a straight line between logarithms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from semistream.cost_model.models import MODELS
from semistream.cost_model.profiles import NAMED_PROFILES
from semistream.experiments.figure import Figure, Results, Series, SizeName
from semistream.experiments.kinds.join_sweep import row_at
from semistream.experiments.lengths import length_for
from semistream.experiments.measures import MEASURES
from semistream.experiments.rows import Row
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import JoinTask, join_task

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class MemoryForRate:
    """x is either the rate (`field="rows_per_s"`), or the size of R at the base's rate.

    memory_shares: where rates are measured. A memory outside of them is not measured, and has no row.
    """

    memory_shares: dict[SizeName, tuple[float, ...]]
    measure: str = "memory"
    unit: str = "MiB"

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[JoinTask]:
        for line, device, value in _places(figure, size):
            for _, task in self._curve(figure, size, line, device, value):
                yield task

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        sweep = figure.sizes[size]
        for line, device, value in _places(figure, size):
            scenario, variant = sweep.at(value, line)
            rates = []
            for memory, task in self._curve(figure, size, line, device, value):
                found = MEASURES["service rate"].of(results.of(task), device)
                if found is not None:
                    rates.append((float(memory), found.value))
            place = row_at(figure, scenario, variant, device, sweep.x(value))
            place |= {"measure": self.measure, "unit": self.unit}
            needed = memory_for(rates, scenario.rows_per_s)
            if needed is not None:
                place["memory_bytes"] = int(needed)
                yield Row(value=needed / MIB, series=line.name, **place)
            said = MODELS[variant.algorithm].memory_for(
                scenario.setting(NAMED_PROFILES[device]), scenario.rows_per_s
            )
            if math.isfinite(said):
                place["memory_bytes"] = int(said)
                yield Row(value=said / MIB, series=f"{line.name}, predicted", source="predicted", **place)

    def _curve(
        self, figure: Figure, size: SizeName, line: Series, device: str, value: float
    ) -> Iterator[tuple[int, JoinTask]]:
        sweep = figure.sizes[size]
        scenario, variant = sweep.at(value, line)
        for share in self.memory_shares[size]:
            at = _never_dry(scenario, share)
            length = length_for(at, variant, sweep.patience)
            yield at.memory_bytes, join_task(at, variant, length, device=device)


def memory_for(rates: Sequence[tuple[float, float]], rate: float) -> float | None:
    """Where the curve of (memory, rows/s) reaches `rate`; None if it does not within the memory that was tried."""
    ordered = sorted(rates)
    for (low, slow), (high, fast) in itertools.pairwise(ordered):
        if slow <= rate <= fast and slow < fast:
            part = math.log(rate / slow) / math.log(fast / slow)
            return float(math.exp(math.log(low) + part * math.log(high / low)))
    return None


def _never_dry(scenario: Scenario, share: float) -> Scenario:
    return replace(scenario, memory_share=share, arrivals="", rows_per_s=0.0)


def _places(figure: Figure, size: SizeName) -> Iterator[tuple[Series, str, float]]:
    for line in figure.series:
        for value in figure.sizes[size].values:
            for device in figure.devices:
                yield line, device, value
