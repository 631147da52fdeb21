"""From figure files to the page: runs, rows, pictures, verdicts."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from semistream.experiments.catalog import load_expected, load_figures
from semistream.experiments.claims import Claim, Judged, judge
from semistream.experiments.figure import Figure, Results, Series, SizeName
from semistream.experiments.page import Facts, Shown, write_page
from semistream.experiments.plot import draw
from semistream.experiments.rows import write_rows
from semistream.experiments.runner import Progress, Ran, ResultStore, run_figures
from semistream.experiments.scenario import Scenario
from semistream.experiments.sentences import adaptive_sentences, device_sentences
from semistream.experiments.summary import write_summary


@dataclass(frozen=True, kw_only=True)
class MakeConfig:
    """experiments: the directory of the figure files. only: papers or figures; empty for all.

    Results of all sizes live in `out`/results; the page of a size replaces that of another. summary: where to write
    what a repository keeps, if anywhere.
    """

    experiments: Path
    out: Path
    size: SizeName = "quick"
    only: tuple[str, ...] = ()
    processes: int = 2
    any_code: bool = False
    summary: Path | None = None
    command: str = "make figures"


@dataclass(frozen=True, kw_only=True)
class Made:
    shown: Sequence[Shown]
    ran: Ran
    page: Path


def make(config: MakeConfig, *, report: Callable[[Progress], None] = lambda progress: None) -> Made:
    """Writes `out`/<paper>/<figure>.csv, .svg and .png, and `out`/index.html with the figures of this call."""
    figures = load_figures(config.experiments, list(config.only))
    expected = load_expected(config.experiments, figures)
    store = ResultStore(config.out / "results", any_code=config.any_code)
    ran = run_figures(figures, config.size, store, processes=config.processes, report=report)
    shown = [show(figure, config.size, ran.results, expected[figure.id], config.out) for figure in figures]
    facts = Facts(
        size=config.size,
        command=config.command,
        machine=machine(),
        processor_s=ran.processor_s,
        tasks=ran.made + ran.kept,
        other_code=ran.other_code,
    )
    page = config.out / "index.html"
    write_page(shown, facts, page)
    if config.summary is not None:
        write_summary(shown, facts, config.out, config.summary)
    return Made(shown=shown, ran=ran, page=page)


def show(figure: Figure, size: SizeName, results: Results, claims: Sequence[Claim], out: Path) -> Shown:
    """One figure's files, and what the page says of it."""
    rows = figure.rows(size, results)
    base = out / figure.paper / figure.name
    write_rows(rows, base.with_suffix(".csv"))
    judged: list[Judged] = [judge(claim, rows, scenarios(figure, size)) for claim in claims]
    return Shown(
        figure=figure,
        svg=draw(figure, rows, base),
        rows=rows,
        judged=judged,
        device_sentences=device_sentences(figure, rows, judged),
        adaptive_sentences=adaptive_sentences(figure, rows),
        left_out=left_out(figure, size, results),
    )


def scenarios(figure: Figure, size: SizeName) -> dict[float, Scenario]:
    """Of each place on the x axis, for bounds."""
    sweep = figure.sizes[size]
    line = Series(variant=figure.series[0].variant)
    return {sweep.x(value): sweep.at(value, line)[0] for value in sweep.values}


def left_out(figure: Figure, size: SizeName, results: Results) -> list[str]:
    found = [(task.title, results.of(task).get("left_out")) for task in figure.tasks(size)]
    return list(dict.fromkeys(f"{title}: {why}" for title, why in found if why))


def machine() -> str:
    return f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
