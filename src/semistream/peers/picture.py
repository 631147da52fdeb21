"""The benchmark's figure: a pure function of its JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from semistream.core.budget import format_bytes
from semistream.errors import SemistreamError
from semistream.peers.registry import OURS, PEERS
from semistream.peers.results import Cell
from semistream.spark.bench_report import short_count

FIGURES = {
    "rates": "rows/s of the median batch",
    "latencies": "99 % of batches take at most, s",
    "memory": "peak memory, MiB",
}
_FIELDS = {"rates": "rows_s", "latencies": "p99_s", "memory": "peak_rss_bytes"}
_UNITS = {"rates": 1.0, "latencies": 1.0, "memory": float(1 << 20)}
_STYLES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#7f7f7f", "#8c564b", "#bcbd22"]
_MARKERS = "osv^Dx+*"


def draw(cells: Iterable[Cell], directory: Path) -> list[Path]:
    """Writes each of FIGURES as SVG and PNG, and returns their paths: nothing without cells that ran."""
    measured = [cell for cell in cells if cell.rows_s is not None]
    if not measured:
        return []
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise SemistreamError(
            "the figure needs matplotlib, which is not installed.", hint='pip install "semistream[peers]"'
        ) from error
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    # The same results give the same bytes: no date, no random names; and text stays text.
    with rc_context({"svg.hashsalt": "semistream", "svg.fonttype": "none"}):
        for name in FIGURES:
            figure = _figure(name, measured, Figure)
            for suffix, more in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 110})):
                written.append(directory / f"{name}.{suffix}")
                figure.savefig(written[-1], **more)
    return written


def _figure(name: str, cells: list[Cell], make: Any) -> Any:
    """A panel for each table, memory, page cache and kind of contestant."""
    rows = sorted({(cell.table_rows, cell.memory_bytes_allowed, cell.fits_in_memory) for cell in cells})
    columns = [
        (family, cache)
        for family in OURS
        for cache in ("warm", "cold")
        if any(cell.family == family and cell.cache == cache for cell in cells)
    ]
    figure = make(figsize=(4.4 * len(columns), 3.3 * len(rows) + 0.9), layout="constrained")
    panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex=True, sharey="row")
    for at, (table_rows, memory, fits) in enumerate(rows):
        for panel, (family, cache) in zip(panels[at], columns, strict=True):
            of_panel = [
                cell
                for cell in cells
                if (cell.table_rows, cell.memory_bytes_allowed) == (table_rows, memory)
                and (cell.family, cell.cache) == (family, cache)
            ]
            _lines(panel, name, of_panel)
            where = "fits" if fits else "does not fit"
            panel.set_title(
                f"{short_count(table_rows)} rows, {format_bytes(memory)} ({where})\n"
                f"{'on Spark' if family == 'spark' else 'without Spark'}, page cache {cache}",
                fontsize=9,
            )
        panels[at][0].set_ylabel(FIGURES[name], fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("rows in a batch", fontsize=9)
    handles: dict[str, Any] = {}
    for panel in panels.flat:
        lines, titles = panel.get_legend_handles_labels()
        handles |= dict(zip(titles, lines, strict=True))
    ordered = [entry.title for entry in PEERS.values() if entry.title in handles]
    figure.legend(
        [handles[title] for title in ordered],
        ordered,
        loc="outside lower center",
        ncols=6,
        fontsize=8,
        frameon=False,
    )
    return figure


def _lines(panel: Any, name: str, cells: list[Cell]) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(visible=True, which="major", alpha=0.3)
    panel.tick_params(labelsize=8)
    others = [name for name in PEERS if name not in OURS.values()]
    for peer, entry in PEERS.items():
        points = sorted(
            (cell.batch_rows, getattr(cell, _FIELDS[name]) / _UNITS[name])
            for cell in cells
            if cell.peer == peer
        )
        if not points:
            continue
        if peer in OURS.values():
            style: dict[str, Any] = {"color": "#d00000", "linewidth": 2.6, "marker": "o", "zorder": 3}
        else:
            at = others.index(peer)
            style = {
                "color": _STYLES[at % len(_STYLES)],
                "linewidth": 1.2,
                "marker": _MARKERS[at % len(_MARKERS)],
            }
        panel.plot(*zip(*points, strict=True), label=entry.title, markersize=4, **style)
