"""Run a join on a virtual or real clock without Spark, and show its cost model's prediction beside it.

The table is virtual: of any size, on no disk. --check-predictions does so for every algorithm over a grid.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from semistream.cli.output import console, names, progress_bar
from semistream.core.budget import format_bytes
from semistream.cost_model.calibration import calibrated
from semistream.cost_model.profiles import NAMED_PROFILES, PROFILE_NAMES, DeviceProfile
from semistream.errors import ConfigError
from semistream.joins import ALGORITHMS, check_algorithm
from semistream.simulation.check import ERROR_MAX, CheckConfig, Checked, cases, check, write
from semistream.simulation.config import SimulationConfig
from semistream.simulation.intervals import Report
from semistream.simulation.points import Point
from semistream.simulation.predicted import Comparison, compare
from semistream.simulation.run import run as simulate
from semistream.workloads.registry import ARRIVALS, make_arrivals

PREDICTIONS = Path("build/predictions.json")
_DEFAULT = " (default: %(default)s)"
_STEP_S = 0.01


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--check-predictions", action="store_true", help=f"the whole grid; writes {PREDICTIONS}")
    add("--out", type=Path, default=PREDICTIONS, metavar="FILE", help=f"of --check-predictions{_DEFAULT}")
    add(
        "--algorithm", action="append", metavar="NAME",
        help=f"of {', '.join(ALGORITHMS)}; several for --check-predictions, where all are the default",
    )  # fmt: skip
    add("--rows", type=int, default=500_000, metavar="N", help=f"rows of the master table{_DEFAULT}")
    add("--rows-per-key", type=int, default=1, metavar="M", help=f"master rows with the same key{_DEFAULT}")
    add("--seed", type=int, default=0, metavar="N", help="another seed makes other rows")
    one = parser.add_argument_group("one run")
    add = one.add_argument
    add("--skew", type=float, default=1.0, metavar="S", help=f"Zipf exponent of the stream{_DEFAULT}")
    add(
        "--memory-share",
        type=float,
        default=0.05,
        metavar="X",
        help=f"memory, as a share of the table{_DEFAULT}",
    )
    add("--ordered", action="store_true", help="keep the order of the stream in the output")
    add("--clock", choices=("virtual", "wall"), default="virtual", help=f"the clock{_DEFAULT}")
    add(
        "--device",
        choices=PROFILE_NAMES,
        default="nvme",
        help=f"whose time the virtual clock shows{_DEFAULT}",
    )
    add("--warm-up-rows", type=int, metavar="N", help="default: what fills the memory three times")
    add("--stream-rows", type=int, default=200_000, metavar="N", help=f"rows to measure{_DEFAULT}")
    add("--arrivals", choices=ARRIVALS, help="a schedule of the stream (default: it never runs dry)")
    add("--rate", type=float, default=10_000.0, metavar="ROWS", help=f"mean rows/s of --arrivals{_DEFAULT}")
    add("--max-delay", type=float, metavar="SECONDS", help="no row waits longer in adaptive's room")
    add("--json", action="store_true", help="print one JSON object, for programs")


def run(arguments: argparse.Namespace) -> None:
    chosen = names(arguments.algorithm) or []
    for name in chosen:
        check_algorithm(name)
    if arguments.check_predictions:
        _check(arguments, tuple(chosen) or tuple(ALGORITHMS))
        return
    if len(chosen) > 1:
        raise ConfigError(
            f"one run is of one algorithm, got {', '.join(chosen)}.",
            hint="pass one of them, or add --check-predictions.",
        )
    _one(arguments, chosen[0] if chosen else "adaptive")


def _one(arguments: argparse.Namespace, algorithm: str) -> None:
    point = Point(
        table_rows=arguments.rows,
        skew=arguments.skew,
        memory_share=arguments.memory_share,
        rows_per_key=arguments.rows_per_key,
        seed=arguments.seed,
        sums=arguments.clock == "wall",
    )
    warm_up = arguments.warm_up_rows
    config = SimulationConfig(
        algorithm=algorithm,
        ordered=arguments.ordered,
        memory_bytes=point.memory_bytes,
        clock=arguments.clock,
        device=_device(arguments.device),
        warm_up_rows=3 * point.memory_bytes // 100 if warm_up is None else warm_up,
        interval_rows=max(1, arguments.stream_rows // 10),
        batch_rows=min(4096, max(1, arguments.stream_rows // 100)),
        max_delay_s=math.inf if arguments.max_delay is None else arguments.max_delay,
    )
    arrivals = None
    if arguments.arrivals is not None:
        arrivals = make_arrivals(
            arguments.arrivals, rows_per_s=arguments.rate, step_s=_STEP_S, seed=arguments.seed
        )
    talk = Console(stderr=True, highlight=False)
    with progress_bar("stream rows", on=talk) as bar:
        task = bar.add_task(algorithm, total=config.rows, note="")
        report = simulate(
            point.table,
            point.stream,
            config,
            arrivals=arrivals,
            arrival_step_s=_STEP_S,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    comparison = None  # the order's cost has no model
    if not arguments.ordered:
        comparison = compare(report, point.table, point.profile, rows_per_key=point.rows_per_key)
    if arguments.json:
        found = None if comparison is None else comparison.to_dict()
        print(json.dumps({**report.to_dict(), "prediction": found}, indent=2))
    else:
        _show_one(report, comparison)


def _show_one(report: Report, comparison: Comparison | None) -> None:
    rate, out = report.service_rate, console()
    order = ", in the stream's order," if report.ordered else ""
    out.print(
        f"{report.algorithm}{order} in {format_bytes(report.memory_bytes)}, {report.rows:,} rows after {report.warm_up_rows:,} "
        f"of warm-up, {report.clock} clock, {report.device.name}",
        soft_wrap=True,
        markup=False,
    )
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("", "measured", "predicted"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    rate_text, hits_text = "no model", ""
    if comparison is not None:
        rate_text = f"{comparison.predicted_rows_per_s:,.0f} ({comparison.error:+.1%})"
        hits_text = f"{comparison.predicted_hit_ratio:.1%}"
    measured = f"{report.rows_per_s:,.0f} +- {rate.plus_minus:,.0f}"
    table.add_row("service rate, rows/s", measured, rate_text)
    table.add_row("hit ratio", f"{report.hit_ratio:.1%}", hits_text)
    table.add_row("rows in the join", f"{report.waiting_rows:,.0f}", "")
    table.add_row("processing time", _time(report.processing_s), "")
    if report.ordered:
        table.add_row("output held for the order", _time(report.held_s), "")
    if report.waiting_s or report.busy_s < report.seconds:
        table.add_row("waiting time", _time(report.waiting_s), "")
        table.add_row("idle", f"{1 - report.busy_s / report.seconds:.1%}", "")
    out.print(table)


def _check(arguments: argparse.Namespace, algorithms: tuple[str, ...]) -> None:
    config = CheckConfig(
        algorithms=algorithms,
        table_rows=arguments.rows,
        rows_per_key=arguments.rows_per_key,
        seed=arguments.seed,
    )
    found: list[Checked] = []
    left_out: list[str] = []
    talk = Console(stderr=True, highlight=False)
    with progress_bar("points", on=talk) as bar:
        task = bar.add_task("checking predictions", total=cases(config), note="")

        def report(text: str) -> None:
            if "left out" in text:
                left_out.append(text)
            else:
                bar.update(task, advance=1 if found or left_out else 0, note=text)

        for each in check(config, report=report):
            found.append(each)
            write(found, arguments.out)
    if not found:
        raise ConfigError(
            f"no algorithm can run at any point of the grid with a table of {arguments.rows:,} rows.",
            hint="pass more --rows.",
        )
    _show_check(found, left_out, arguments.out)


def _show_check(found: list[Checked], left_out: list[str], path: Path) -> None:
    out = console()
    table = Table(
        title="Service rate: predicted against measured", box=None, header_style="dim", pad_edge=False
    )
    columns = sorted({(each.comparison.device, each.point.skew) for each in found})
    table.add_column("algorithm", no_wrap=True)
    table.add_column("memory", justify="right", no_wrap=True)
    for device, skew in columns:
        table.add_column(f"{device}\nskew {skew:g}", justify="right", no_wrap=True)
    by_row: dict[tuple[str, float], dict[tuple[str, float], Checked]] = {}
    for each in found:
        row = by_row.setdefault((each.comparison.algorithm, each.point.memory_share), {})
        row[each.comparison.device, each.point.skew] = each
    for (name, share), row in by_row.items():
        cells = [row.get(column) for column in columns]
        table.add_row(name, f"{share:.0%}", *("-" if cell is None else _cell(cell) for cell in cells))
    out.print(table)
    for text in left_out:
        out.print(text, soft_wrap=True, markup=False)
    met, worst = sum(each.is_met for each in found), max(abs(each.comparison.error) for each in found)
    verdict = "[green]met[/]" if met == len(found) else "[red]not met[/]"
    out.print(
        f"{verdict} at most {ERROR_MAX:.0%}: {met} of {len(found)} predictions, the worst is off by {worst:.1%} ({path})",
        soft_wrap=True,
    )


def _cell(checked: Checked) -> str:
    text = f"{checked.comparison.error:+.1%}"
    return text if checked.is_met else f"[red]{text}[/]"


def _device(name: str) -> DeviceProfile:
    return calibrated() if name == "measured" else NAMED_PROFILES[name]


def _time(seconds: float) -> str:
    """In the unit that fits.

    >>> _time(0.00125)
    '1.25 ms'
    """
    if not seconds > 0:
        return "0"
    power = min(2, max(0, -math.floor(math.log10(seconds) / 3)))
    return f"{seconds * 1000**power:.3g} {('s', 'ms', 'us')[power]}"
