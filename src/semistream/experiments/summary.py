"""The page's content for a repository: one Markdown file and small pictures, with the machine and the command."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from semistream.experiments.figure import PAPERS
from semistream.experiments.page import Facts, Shown, number, settings
from semistream.experiments.verdicts import Grade

NAME = "README.md"


def write_summary(shown: Sequence[Shown], facts: Facts, made: Path, out: Path) -> None:
    """Writes `out`/README.md, and copies the PNG of every figure from `made` beside it."""
    for each in shown:
        target = out / f"{each.figure.id}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made / f"{each.figure.id}.png", target)
    (out / NAME).write_text(summary(shown, facts))


def summary(shown: Sequence[Shown], facts: Facts) -> str:
    grades = [one.verdict.grade for each in shown for one in each.judged]
    counts = ", ".join(f"{grades.count(grade)} {grade.value}" for grade in Grade if grade in grades)
    lines = [
        "# The papers' figures, measured again",
        "",
        (
            f"Made by `{facts.command}`: {facts.tasks} runs, {facts.processor_s / 60:.0f} minutes of processor time on "
            f"{facts.machine}. Of {len(grades)} claims: {counts}."
        ),
    ]
    for paper, publication in PAPERS.items():
        of_paper = [each for each in shown if each.figure.paper == paper]
        if of_paper:
            lines += ["", f"## {publication}: {paper}"]
        for each in of_paper:
            lines += _figure(each, facts)
    return "\n".join([*lines, ""])


def _figure(each: Shown, facts: Facts) -> list[str]:
    figure = each.figure
    note = figure.sizes[facts.size].note
    lines = ["", f"### Figure {number(figure.name)}: {figure.title}", "", figure.about, ""]
    lines += [f"![{figure.title}]({figure.id}.png)", "", f"{settings(each, facts.size)} {note}".strip(), ""]
    lines += ["| the paper claims | we find | verdict |", "|---|---|---|"]
    lines += [f"| {one.claim.says} | {one.text} | {one.verdict.grade.value} |" for one in each.judged]
    said = [
        *each.device_sentences,
        *each.adaptive_sentences,
        *(f"Left out: {text}" for text in each.left_out),
    ]
    for text in said:
        lines += ["", text]
    return lines
