"""The results of `make bench-core` as tables, and what they have to reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

WARM_ROWS_S_MIN = 1.5e6
READ_SHARE_MIN = 0.70
OVERHEAD_US_MAX = 50.0
NOISE = 0.03


def checks(result: dict[str, Any]) -> Iterator[tuple[str, bool, str]]:
    """Every target that these results can answer: its name, whether it is met, what was found."""
    if speed := result.get("speed"):
        rate = speed["adaptive_pushed_rows_s"]
        yield "adaptive, warm: at least 1.5 M rows/s", rate >= WARM_ROWS_S_MIN, f"{rate / 1e6:.2f} M rows/s"
    if reads := result.get("reads"):
        share = reads["cold"]["share"]
        yield "meshjoin: at least 70 % of the disk's speed", share >= READ_SHARE_MIN, f"{share:.0%}"
    if steps := result.get("steps"):
        found = steps["few_rows"]["overhead_us"]
        yield "hybridjoin: at most 50 us of overhead a step", found <= OVERHEAD_US_MAX, f"{found:.0f} us"
    for part in ("grid", "virtual"):
        if grid := result.get(part):
            name = f"{part}: adaptive leads at all points ({NOISE:.0%} for noise)"
            text = f"{grid['adaptive_leads']} of {grid['compared']}, at the worst {grid['lowest_share'] or 0:.2f} of the best"
            yield name, grid["adaptive_leads"] == grid["compared"], text


def show(result: dict[str, Any], out: Console) -> None:
    if speed := result.get("speed"):
        out.print(_speed(speed), "", sep="\n")
    if reads := result.get("reads"):
        out.print(_reads(reads), "", sep="\n")
    if steps := result.get("steps"):
        out.print(_steps(steps), "", sep="\n")
    for part in ("grid", "virtual"):
        if grid := result.get(part):
            out.print(_grid(grid), "", sep="\n")
    for name, met, text in checks(result):
        out.print(f"{'[green]met    ' if met else '[red]not met'}[/] {name}: {text}")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=None, header_style="dim", pad_edge=False, title_justify="left")
    table.add_column(columns[0], no_wrap=True)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _speed(speed: dict[str, Any]) -> Table:
    table = _table("One core, rows/s (medians)", "", "rows/s", "of processor time")
    for name, text in (
        ("pushed", "adaptive, pushed on and on"),
        ("flushed", "adaptive, flushed every batch"),
    ):
        table.add_row(
            text,
            f"{speed[f'adaptive_{name}_rows_s']:,.0f}",
            f"{speed[f'adaptive_{name}_rows_processor_s']:,.0f}",
        )
    memory = speed["in_memory"]
    table.add_row(
        f"front stage alone, hits {memory['hit_ratio']:.1%}", f"{memory['front_stage_rows_s']:,.0f}", ""
    )
    for name in ("polars", "duckdb"):
        times = memory[f"times_{name}"]
        table.add_row(
            f"{name}, all of R in memory", f"{memory[f'{name}_rows_s']:,.0f}", f"front stage: {times:.1f} x"
        )
    return table


def _reads(reads: dict[str, Any]) -> Table:
    table = _table("Reading R", "", "disk, MB/s", "meshjoin, MB/s", "share")
    for state in ("cold", "warm"):
        found = reads[state]
        table.add_row(
            state,
            f"{found['disk_bytes_s'] / 1e6:,.0f}",
            f"{found['meshjoin_bytes_s'] / 1e6:,.0f}",
            f"{found['share']:.0%}",
        )
    return table


def _steps(steps: dict[str, Any]) -> Table:
    table = _table("Steps of hybridjoin", "", "rows a step", "step, us", "reading, us", "overhead, us")
    for name in ("few_rows", "many_rows"):
        found = steps[name]
        table.add_row(
            name.replace("_", " "),
            f"{found['rows_per_step']:.1f}",
            f"{found['step_us']:.0f}",
            f"{found['read_us']:.0f}",
            f"{found['overhead_us']:.0f}",
        )
    return table


def _grid(grid: dict[str, Any]) -> Table:
    title = f"adaptive beside the best of the others, {grid['table_rows']:,} rows"
    table = _table(title, "rows per key, skew, memory", "adaptive, rows/s", "best other", "rows/s", "share")
    for point in grid["points"]:
        share = point["share_of_best_other"]
        place = f"{point['rows_per_key']}, {point['skew']:g}, {point['memory_share']:.0%}"
        place += f", {point['device']}" if "device" in point else ""
        rates = point["rows_s"]
        if share is None:
            table.add_row(place, "too little memory", "", "", "")
            continue
        style = "" if share >= 1 - NOISE else "red"
        best = point["best_other"]
        table.add_row(
            place, f"{rates['adaptive']:,.0f}", best, f"{rates[best]:,.0f}", f"{share:.2f}", style=style
        )
    return table
