"""One page for all figures: plot, settings, claim, measurement, verdict. It needs no network and no script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from semistream.core.budget import format_bytes
from semistream.experiments.claims import Judged
from semistream.experiments.figure import PAPERS, Figure, SizeName
from semistream.experiments.rows import Row
from semistream.experiments.verdicts import Grade

_TITLES = {
    "skewed": "Skewed distributions in semi-stream joins",
    "hybridjoin": "HYBRIDJOIN",
    "ssbj": "A memory-optimal many-to-many semi-stream join",
    "front_stage": "A generic front-stage for semi-stream processing",
}
_CLASSES = {
    Grade.REPRODUCED: "yes",
    Grade.DIRECTION: "partly",
    Grade.NOT: "no",
    Grade.MISSING: "missing",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { margin-top: 2.5rem; border-bottom: 2px solid #ddd } h3 { margin: 2rem 0 .3rem }
figure { margin: .5rem 0 } svg { width: 100%; height: auto; max-height: 30rem }
table { border-collapse: collapse } th, td { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top }
td.count, th.count { text-align: right } .settings, .links { color: #555; font-size: .9rem }
.badge { display: inline-block; padding: 0 .5rem; border-radius: .6rem; font-size: .85rem; white-space: nowrap }
.yes { background: #cfead2 } .partly { background: #fde9b8 } .no { background: #f6cfca } .missing { background: #e2e2e2 }
.device { border-left: 3px solid #888; padding-left: .7rem; margin: .4rem 0 }
"""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A figure, ready for the page."""

    figure: Figure
    svg: str
    rows: Sequence[Row]
    judged: Sequence[Judged]
    device_sentences: Sequence[str] = ()
    adaptive_sentences: Sequence[str] = ()
    left_out: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is said of the whole run."""

    size: SizeName
    command: str
    machine: str
    processor_s: float
    tasks: int
    other_code: int = 0


def page(shown: Sequence[Shown], facts: Facts) -> str:
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>semistream: the papers' figures</title><style>{_STYLE}</style></head><body>",
        "<h1>The papers' figures, measured again</h1>",
        _preface(facts),
        _summary(shown),
    ]
    for paper, number in PAPERS.items():
        of_paper = [each for each in shown if each.figure.paper == paper]
        if of_paper:
            parts.append(f'<h2 id="{paper}">{number}: {escape(_TITLES[paper])}</h2>')
            parts += [_section(each, facts.size) for each in of_paper]
    return "\n".join([*parts, "</body></html>", ""])


def write_page(shown: Sequence[Shown], facts: Facts, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(shown, facts))


def _preface(facts: Facts) -> str:
    other = (
        f" <strong>{facts.other_code} of the results were made by another version of the code.</strong>"
        if facts.other_code
        else ""
    )
    return (
        f"<p>Made by <code>{escape(facts.command)}</code>: {facts.tasks} runs, {facts.processor_s / 60:.0f} minutes of "
        f"processor time on {escape(facts.machine)}.{other} All service rates are on a virtual clock: a run's counters (reads, bytes, "
        "probes, ...) times the constants of a device. <em>hdd2012</em> is a desktop of the papers' time with a hard disk, "
        "<em>nvme</em> a server of today; claims are judged on the former. Error bars are 95 % confidence intervals over the "
        "measured intervals of a run; exact counts and closed forms have none. Verdicts follow from the rules in "
        "<code>expected.toml</code>; nobody decides them.</p>"
    )


def _summary(shown: Sequence[Shown]) -> str:
    grades = list(Grade)
    head = "".join(f'<th class="count">{_badge(grade)}</th>' for grade in grades)
    lines = []
    for paper, number in PAPERS.items():
        judged = [one for each in shown if each.figure.paper == paper for one in each.judged]
        if not judged:
            continue
        found = Counter(one.verdict.grade for one in judged)
        cells = "".join(f'<td class="count">{found[grade]}</td>' for grade in grades)
        unreachable = sum(one.is_unreachable for one in judged)
        lines.append(
            f'<tr><td><a href="#{paper}">{number} {escape(_TITLES[paper])}</a></td>{cells}'
            f'<td class="count">{unreachable}</td></tr>'
        )
    return (
        f'<table id="summary"><tr><th>paper</th>{head}<th class="count">claimed beyond the paper\'s own bound</th></tr>'
        f"{''.join(lines)}</table>"
    )


def _section(each: Shown, size: SizeName) -> str:
    figure = each.figure
    sweep = figure.sizes[size]
    identity = figure.id.replace("/", "-")
    claims = "".join(
        f"<tr><td>{escape(one.claim.says)}</td><td>{escape(one.text)}</td><td>{_badge(one.verdict.grade)}</td></tr>"
        for one in each.judged
    )
    sentences = "".join(f'<p class="device">{escape(text)}</p>' for text in each.device_sentences)
    ours = "".join(f"<p>{escape(text)}</p>" for text in each.adaptive_sentences)
    left_out = "".join(f"<p>Left out: {escape(text)}</p>" for text in each.left_out)
    note = f" {sweep.note}" if sweep.note else ""
    links = ", ".join(f'<a href="{figure.id}.{kind}">{kind.upper()}</a>' for kind in ("csv", "svg", "png"))
    return (
        f'<section id="{identity}"><h3>Figure {escape(number(figure.name))}: {escape(figure.title)}</h3>'
        f"<p>{escape(figure.about)}</p><figure>{each.svg}</figure>"
        f'<p class="settings">{escape(settings(each, size) + note)}</p>'
        f"<table><tr><th>the paper claims</th><th>we find</th><th>verdict</th></tr>{claims}</table>"
        f'{sentences}{ours}{left_out}<p class="links">{links}</p></section>'
    )


def settings(each: Shown, size: SizeName) -> str:
    rows = [row for row in each.rows if row.table_rows]
    if not rows:
        return ""
    base = each.figure.sizes[size].base
    text = [
        f"|R| {_span([row.table_rows for row in rows])} rows of {base.row_bytes} bytes",
        f"stream rows of {base.stream_row_bytes} bytes",
        f"memory {_bytes_span([row.memory_bytes for row in rows])}",
        f"skew {_span([row.skew for row in rows])}",
        f"seed {base.seed}",
    ]
    hidden = sum(row.value <= 0 for row in each.rows) if each.figure.y.log else 0
    unseen = f" {hidden} values of 0 have no place on a logarithmic axis." if hidden else ""
    return "Settings: " + ", ".join(text) + "." + unseen


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:,g}" if low == high else f"{low:,.10g} to {high:,.10g}"


def _bytes_span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return format_bytes(low) if low == high else f"{format_bytes(low)} to {format_bytes(high)}"


def number(name: str) -> str:
    """fig05a is 5a."""
    return name.removeprefix("fig").lstrip("0")


def _badge(grade: Grade) -> str:
    return f'<span class="badge {_CLASSES[grade]}">{grade.value}</span>'
