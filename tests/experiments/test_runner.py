"""Results are kept by config and code; whoever is interrupted goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from semistream.errors import ConfigError, SemistreamError
from semistream.experiments.figure import Axis, Figure, Results, SizeName, series
from semistream.experiments.grids import sizes
from semistream.experiments.rows import Row
from semistream.experiments.runner import Progress, ResultStore, run_figures
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import Result, config_of, key_of

LOG: list[int] = []


@dataclass(frozen=True, kw_only=True)
class Square:
    kind: ClassVar[str] = "square"
    number: int
    fails: bool = False

    @property
    def title(self) -> str:
        return f"square of {self.number}"

    @property
    def effort(self) -> float:
        return float(self.number)

    def perform(self) -> Result:
        LOG.append(self.number)
        if self.fails:
            raise ConfigError("it cannot be squared.", hint="choose another.")
        return {"value": self.number**2}


@dataclass(frozen=True, kw_only=True)
class Squares:
    fails_at: int = -1
    measure: str = "square"
    unit: str = ""

    def tasks(self, figure: Figure, size: SizeName) -> Iterator[Square]:
        for value in figure.sizes[size].values:
            yield Square(number=int(value), fails=value == self.fails_at)

    def rows(self, figure: Figure, size: SizeName, results: Results) -> Iterator[Row]:
        for task in self.tasks(figure, size):
            yield Row(
                paper=figure.paper, figure=figure.name, series="s", device="", x=task.number,
                measure="square", unit="", value=results.of(task)["value"],
            )  # fmt: skip


def figure(*numbers: float, fails_at: int = -1, name: str = "fig1") -> Figure:
    return Figure(
        paper="skewed", name=name, title="squares", about="", x=Axis(label="x"), y=Axis(label="y"),
        kind=Squares(fails_at=fails_at), series=series("inlj"),
        sizes=sizes(Scenario(table_rows=1000), "", numbers, tiny=numbers),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _log() -> None:
    LOG.clear()


def test_what_has_been_run_is_not_run_again(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    first = run_figures([figure(3, 1, 2)], "tiny", store, processes=1)
    assert LOG == [3, 2, 1], "the longest first"
    assert (first.made, first.kept) == (3, 0)
    again = run_figures([figure(3, 1, 2, 4)], "tiny", store, processes=1)
    assert LOG == [3, 2, 1, 4]
    assert (again.made, again.kept) == (1, 3)
    assert [row.value for row in figure(3, 4).rows("tiny", again.results)] == [9, 16]


def test_figures_share_their_runs(tmp_path: Path) -> None:
    figures = [figure(3, 1), figure(1, 2, name="fig2")]
    assert run_figures(figures, "tiny", ResultStore(tmp_path), processes=1).made == 3
    assert sorted(LOG) == [1, 2, 3]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    with pytest.raises(SemistreamError, match="square of 2: it cannot be squared"):
        run_figures([figure(3, 1, 2, fails_at=2)], "tiny", store, processes=1)
    assert LOG == [3, 2]
    (tmp_path / f"{key_of(Square(number=1))}.json").write_text('{"code": "half a fi')
    ran = run_figures([figure(3, 1, 2)], "tiny", store, processes=1)
    assert LOG == [3, 2, 2, 1]
    assert (ran.made, ran.kept) == (2, 1)


def test_results_of_other_code_are_made_anew_unless_they_are_wanted(tmp_path: Path) -> None:
    run_figures([figure(3)], "tiny", ResultStore(tmp_path), processes=1)
    path = tmp_path / f"{key_of(Square(number=3))}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code": "older"}))
    wanted = run_figures([figure(3)], "tiny", ResultStore(tmp_path, any_code=True), processes=1)
    assert (wanted.made, wanted.kept, wanted.other_code) == (0, 1, 1)
    ran = run_figures([figure(3)], "tiny", ResultStore(tmp_path), processes=1)
    assert (ran.made, ran.kept, ran.other_code) == (1, 0, 0)


def test_any_other_config_is_another_result() -> None:
    one = Square(number=3)
    assert key_of(one) == key_of(replace(one))
    assert key_of(one) != key_of(replace(one, fails=True))
    assert config_of(one)["kind"] == "square"


def test_progress_says_how_long_it_will_take(tmp_path: Path) -> None:
    said: list[Progress] = []
    run_figures([figure(3, 1, 2)], "tiny", ResultStore(tmp_path), processes=1, report=said.append)
    assert [each.done for each in said] == [0, 1, 2, 3]
    assert said[0].left_s is None
    assert said[-1].left_s == pytest.approx(0.0)
