"""A figure as data: what is varied, which algorithms, what is measured, how large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol

from semistream.errors import ConfigError
from semistream.experiments.lengths import DEFAULT_PATIENCE, Patience
from semistream.experiments.rows import Row
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import DEVICES, Result, Task, check_device, key_of
from semistream.experiments.variant import Variant

SizeName = Literal["tiny", "quick", "full"]
SIZES: tuple[SizeName, ...] = ("tiny", "quick", "full")
PAPERS = {"skewed": "000", "hybridjoin": "001", "ssbj": "003", "front_stage": "004"}
Changes = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Axis:
    label: str
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of the plot: an algorithm, in a scenario that may differ from the others' (`changes`)."""

    variant: Variant
    label: str = ""
    changes: Changes = ()

    @property
    def name(self) -> str:
        return self.label or self.variant.name


def series(*names: str) -> tuple[Series, ...]:
    """Plain algorithms by name."""
    return tuple(Series(variant=Variant(algorithm=name)) for name in names)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One size of a figure: `field` of the scenario or the variant takes the `values`, all else is `base`. Where the
    values are something else, which only the figure's kind knows, `field` is "".

    to_x: from the value to what the horizontal axis shows, which is the paper's own unit. note: what is not as in the paper.
    """

    base: Scenario
    field: str
    values: tuple[float, ...]
    to_x: float = 1.0
    patience: Patience = DEFAULT_PATIENCE
    note: str = ""

    def __post_init__(self) -> None:
        known = {field.name for kind in (Scenario, Variant) for field in fields(kind)}
        if self.field not in known | {""} or not self.values:
            raise ConfigError(
                f"a sweep over {self.field!r} with {len(self.values)} values is none.",
                hint=f"choose one of: {', '.join(sorted(known))}; and some values.",
            )

    def at(self, value: float, line: Series) -> tuple[Scenario, Variant]:
        """Everything of a run that is not how long it takes."""
        scenario = with_changes(self.base, line.changes)
        if not self.field:
            return scenario, line.variant
        if self.field in {field.name for field in fields(Scenario)}:
            return with_changes(scenario, ((self.field, value),)), line.variant
        known: object = value
        if self.field in ("buffer_pages", "threshold"):
            known = int(value)
        return scenario, replace(line.variant, **{self.field: known})  # type: ignore[arg-type]

    def x(self, value: float) -> float:
        return float(f"{value * self.to_x:.10g}")


def with_changes(scenario: Scenario, changes: Changes) -> Scenario:
    """Fields that count things stay whole numbers."""
    whole = {field.name for field in fields(Scenario) if field.type == "int"}
    return replace(
        scenario,
        **{name: int(value) if name in whole else value for name, value in changes},  # type: ignore[arg-type]
    )


class Kind(Protocol):
    """What is done at the points of a figure. Both are pure functions of the figure and its size."""

    measure: str
    unit: str

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[Task]:
        """All runs it needs; the same one may be named twice."""

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        """The numbers; points whose result says that they were left out have none."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """What has been run, by task."""

    by_key: Mapping[str, Result]

    def of(self, task: Task) -> Result:
        return self.by_key[key_of(task)]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """about: what the paper did, in our words. kind: what is measured. sizes: the same figure, larger and smaller.

    is_comparison: `adaptive` and the clairvoyant bound belong into it.
    """

    paper: str
    name: str
    title: str
    about: str
    x: Axis
    y: Axis
    kind: Kind
    series: tuple[Series, ...]
    sizes: Mapping[SizeName, Sweep]
    devices: tuple[str, ...] = DEVICES

    def __post_init__(self) -> None:
        if self.paper not in PAPERS:
            raise ConfigError(f"there is no paper {self.paper!r}.", hint=f"choose of {', '.join(PAPERS)}.")
        if set(self.sizes) != set(SIZES):
            raise ConfigError(
                f"{self.id} has the sizes {', '.join(self.sizes)}.", hint=f"give {', '.join(SIZES)}."
            )
        for device in self.devices:
            check_device(device)

    @property
    def id(self) -> str:
        return f"{self.paper}/{self.name}"

    def tasks(self, size: SizeName) -> list[Task]:
        return list(self.kind.tasks(self, size))

    def rows(self, size: SizeName, results: Results) -> list[Row]:
        return list(self.kind.rows(self, size, results))
