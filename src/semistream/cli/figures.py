"""Reproduce the papers' figures; writes build/figures/index.html.

Every run's result is kept, so that an interrupted command goes on where it was.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from semistream.cli.output import console, names, progress_bar
from semistream.errors import ConfigError
from semistream.experiments.figure import SIZES
from semistream.experiments.make import Made, MakeConfig, make
from semistream.experiments.runner import Progress
from semistream.experiments.verdicts import Grade

_DEFAULT = " (default: %(default)s)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--size", choices=SIZES, default="quick", help=f"full has the papers' tables{_DEFAULT}")
    add("--only", action="append", metavar="NAME", help="a paper or a figure, such as skewed/fig05a; several")
    add("--experiments", type=Path, default=Path("experiments"), help=f"the figure files{_DEFAULT}")
    add("--out", type=Path, default=Path("build/figures"), metavar="DIR", help=f"where to write{_DEFAULT}")
    add("--processes", type=int, default=2, metavar="N", help=f"runs at a time{_DEFAULT}")
    add("--summary", type=Path, metavar="DIR", help="also write a Markdown page with small pictures there")
    add("--any-code", action="store_true", help="keep results that another version of the code made")


def run(arguments: argparse.Namespace) -> None:
    if arguments.processes < 1:
        raise ConfigError(f"--processes {arguments.processes} runs nothing.", hint="pass 1 or more.")
    config = MakeConfig(
        experiments=arguments.experiments,
        out=arguments.out,
        size=arguments.size,
        only=tuple(names(arguments.only) or ()),
        processes=arguments.processes,
        any_code=arguments.any_code,
        summary=arguments.summary,
        command="make figures"
        if arguments.size == "quick"
        else f"semistream figures --size {arguments.size}",
    )
    talk = Console(stderr=True, highlight=False)
    with progress_bar("runs", on=talk) as bar:
        task = bar.add_task("figures", total=1, note="")

        def report(progress: Progress) -> None:
            left = "" if progress.left_s is None else f"about {progress.left_s / 60:.0f} min left, "
            bar.update(task, completed=progress.done, total=progress.total, note=f"{left}{progress.note}")

        made = make(config, report=report)
    _show(made)


def _show(made: Made) -> None:
    out = console()
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("figure", "verdicts"):
        table.add_column(name, no_wrap=True)
    for each in made.shown:
        found = Counter(one.verdict.grade for one in each.judged)
        table.add_row(
            each.figure.id, ", ".join(f"{found[grade]} {grade.value}" for grade in Grade if found[grade])
        )
    out.print(table)
    ran = made.ran
    out.print(
        f"{ran.made} runs made, {ran.kept} kept from before, {ran.processor_s / 60:.1f} min of processor time in all: {made.page}",
        soft_wrap=True,
    )
