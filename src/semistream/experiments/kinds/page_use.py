"""How often the parts of R are wanted by the stream, and how often a join reads them (001 Fig 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from semistream.core.contracts import I64
from semistream.cost_model.profiles import NAMED_PROFILES
from semistream.experiments.figure import Figure, Results, SizeName
from semistream.experiments.kinds.join_sweep import row_at
from semistream.experiments.lengths import Length, length_for
from semistream.experiments.rows import Row
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import PAPER_DEVICE, Result, key_of
from semistream.experiments.variant import Variant, composed
from semistream.master_table.virtual import VirtualShardReader, VirtualTable, VirtualTableConfig
from semistream.simulation.config import SimulationConfig
from semistream.simulation.run import run

SEGMENT_PAGES = 20  # of the paper
_SAMPLE_ROWS = 1 << 20


class CountingTable(VirtualTable):
    """Counts how often each page is read."""

    def __init__(self, config: VirtualTableConfig) -> None:
        super().__init__(config)
        self.reads = np.zeros(self.pages, np.int64)

    def open_shard(self, shard: int) -> VirtualShardReader:
        return _CountingReader(self)


class _CountingReader(VirtualShardReader):
    def __init__(self, table: CountingTable) -> None:
        super().__init__(table)
        self._reads = table.reads

    def fetch(self, pages: I64) -> I64:
        np.add.at(self._reads, pages, 1)
        return super().fetch(pages)


@dataclass(frozen=True, kw_only=True)
class PageUseTask:
    """The reads of each of `parts` equal parts of R by an algorithm, and the stream rows that want them."""

    kind: ClassVar[str] = "page use"
    scenario: Scenario
    variant: Variant
    length: Length
    parts: int

    @property
    def title(self) -> str:
        return f"{self.variant.name}: reads by place in R"

    @property
    def effort(self) -> float:
        return 30.0 * (self.length.warm_up_rows + self.length.intervals * self.length.interval_rows)

    def perform(self) -> Result:
        scenario = self.scenario
        table = CountingTable(scenario.table.config)
        with composed(self.variant) as name:
            config = SimulationConfig(
                algorithm=name,
                memory_bytes=scenario.memory_bytes,
                device=NAMED_PROFILES[PAPER_DEVICE],
                **asdict(self.length),
            )
            report = run(table, scenario.stream, config)
        # In a clustered table the rank of a key is its place.
        keys = scenario.key_source.keys(batch=0, rows=_SAMPLE_ROWS)
        page = keys * scenario.rows_per_key // table.config.rows_per_page
        wanted = np.bincount(page, minlength=table.pages)
        return {
            "pages": table.pages,
            "rows": report.final.rows_in,
            "reads": _by_part(table.reads, self.parts),
            "wanted": _by_part(wanted / _SAMPLE_ROWS, self.parts),
        }


@dataclass(frozen=True, kw_only=True)
class PageUse:
    """x is the place in R, in pages; the number is that of a segment of the paper's 20 pages, for 1000 stream rows."""

    parts: dict[SizeName, int]
    measure: str = "use of a segment"
    unit: str = "per 1000 stream rows"

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[PageUseTask]:
        sweep = figure.sizes[size]
        for line in figure.series:
            scenario, variant = sweep.at(sweep.values[0], line)
            length = length_for(scenario, variant, sweep.patience)
            yield PageUseTask(scenario=scenario, variant=variant, length=length, parts=self.parts[size])

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        sweep = figure.sizes[size]
        for line, task in zip(figure.series, self.tasks(figure, size), strict=True):
            result = results.of(task)
            scenario, variant = sweep.at(sweep.values[0], line)
            per_part = result["pages"] / self.parts[size] / SEGMENT_PAGES
            for name, counted, by in (
                (f"read by {line.name}", result["reads"], result["rows"]),
                ("wanted by the stream", result["wanted"], 1.0),
            ):
                if name.startswith("wanted") and line is not figure.series[0]:
                    continue
                for part, count in enumerate(counted):
                    x = result["pages"] * (part + 0.5) / self.parts[size]
                    yield Row(
                        series=name,
                        value=1e3 * count / by / per_part,
                        measure=self.measure,
                        unit=self.unit,
                        task=key_of(task),
                        **row_at(figure, scenario, variant, "", round(x, 1)),
                    )


def _by_part(values: np.ndarray[tuple[int, ...], np.dtype[np.float64 | np.int64]], parts: int) -> list[float]:
    return [float(part.sum()) for part in np.array_split(values, parts)]
