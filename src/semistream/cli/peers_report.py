"""The results of `make bench-peers` as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from semistream.peers.registry import OURS, PEERS
from semistream.peers.results import Cell, Place, by_place, short_rate, short_time
from semistream.peers.verdict import counted, not_first


def show(cells: Iterable[Cell], out: Console) -> None:
    found = list(cells)
    tables = dict.fromkeys((place.table_rows, place.memory_bytes_allowed) for place in by_place(found))
    for table in tables:
        of_table = [cell for cell in found if (cell.table_rows, cell.memory_bytes_allowed) == table]
        for family in OURS:
            places = by_place(cell for cell in of_table if cell.family == family)
            if places:
                out.print(_table(places), "", sep="\n")
    for line in _remarks(found):
        out.print(line, soft_wrap=True, markup=False)
    for line in [*counted(found), *not_first(found)]:
        out.print(line, soft_wrap=True, markup=False)


def _table(places: dict[Place, dict[str, Cell]]) -> Table:
    """Two lines a cell: rows/s of the median batch, and what 99 % of the batches took at most."""
    some = next(iter(places))
    title = str(some).rsplit(",", 2)[0] + ": rows/s, 99 % of latencies; peak memory in MiB"
    table = Table(title=title, box=None, header_style="dim", pad_edge=False, title_justify="left")
    table.add_column("", no_wrap=True)
    ordered = sorted(places, key=lambda place: (place.cache != "warm", place.batch_rows))
    for place in ordered:
        table.add_column(str(place).rpartition("of ")[2] + f"\n{place.cache}", justify="right", no_wrap=True)
    table.add_column("memory\nup to", justify="right", no_wrap=True)
    for name, entry in PEERS.items():
        row = [places[place].get(name) for place in ordered]
        if any(row):
            style = "bold" if name in OURS.values() else ""
            peaks = [cell.peak_rss_bytes for cell in row if cell is not None and cell.peak_rss_bytes]
            peak = f"{max(peaks) / 2**20:,.0f}" if peaks else ""
            table.add_row(entry.title, *map(_text, row), peak, style=style)
    return table


def _text(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.rows_s is None or cell.p99_s is None:
        return "-"
    return f"{short_rate(cell.rows_s)}\n{short_time(cell.p99_s)}"


def _remarks(cells: list[Cell]) -> list[str]:
    """Why contestants did not run, and what they noted: each once."""
    lines: dict[str, None] = {}
    for cell in cells:
        for text in (cell.failed,) if cell.failed is not None else cell.notes:
            lines[f"{PEERS[cell.peer].title}, {cell.table_rows:,} rows: {text}"] = None
    return list(lines)


def written(paths: Iterable[Path], out: Console) -> None:
    out.print(f"written: {', '.join(map(str, paths))}", soft_wrap=True, markup=False)
