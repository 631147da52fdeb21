"""Generate a stream and a master table, of one of several kinds, as Parquet files.

Seeded: the same options write the same rows on every machine. Never all in memory. Needs no Spark.
"""

from __future__ import annotations

import argparse
import time
import types
import typing
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID

import semistream
from semistream.cli.output import console, progress_bar
from semistream.workloads.arrivals import Arrivals
from semistream.workloads.files import Output, Written, write_workload
from semistream.workloads.registry import ARRIVALS, KINDS, Kind, make_arrivals

_DEFAULT = " (default: %(default)s)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(title="kinds", metavar="KIND", dest="kind", required=True)
    for kind in KINDS.values():
        sub = kinds.add_parser(
            kind.name,
            help=kind.summary,
            description=f"{kind.summary[:1].upper()}{kind.summary[1:]}.",
            allow_abbrev=False,
        )
        _add_output_arguments(sub)
        _add_arrival_arguments(sub, kind)
        _add_kind_arguments(sub, kind)
        # See main: a --debug before the kind's name must not be reset behind it.
        sub.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> None:
    kind = KINDS[arguments.kind]
    options = kind.options(**{each.name: getattr(arguments, each.name) for each in fields(kind.options)})
    output = Output(
        directory=arguments.out,
        stream_rows=arguments.rows,
        batch_rows=arguments.batch_rows,
        table=arguments.only != "stream",
        stream=arguments.only != "table",
        arrivals=_arrivals(arguments),
        step_s=arguments.step,
        overwrite=arguments.overwrite,
    )
    workload = kind.build(options)
    note: dict[str, Any] = {
        "kind": kind.name,
        "semistream": semistream.__version__,
        "options": asdict(options),
        "stream": {"key": workload.stream_key, "rows": arguments.rows, "file_rows": arguments.batch_rows},
        "table": {"key": workload.table_key},
        "arrivals": None if output.arrivals is None else asdict(typing.cast(Any, output.arrivals)),
    }
    out, started, written = console(), time.perf_counter(), {"table": 0, "stream": 0}
    with progress_bar("rows", on=out) as progress:
        bars: dict[str, TaskID] = {}
        for each in write_workload(workload, output, note):
            written[each.side] += each.rows
            _show(progress, bars, each)
    parts = [
        f"{rows:,} rows in {arguments.out / side} (key {note[side]['key']})"
        for side, rows in written.items()
        if rows
    ]
    out.print(
        f"generated {kind.name}: {'; '.join(parts) or 'no rows'} ({time.perf_counter() - started:.1f} s)",
        soft_wrap=True,
        markup=False,
    )


def _show(progress: Progress, bars: dict[str, TaskID], written: Written) -> None:
    if written.side not in bars:
        bars[written.side] = progress.add_task(
            f"writing the {written.side}", total=written.total or 0, note=""
        )
    bar = bars[written.side]
    progress.advance(bar, written.rows)
    if written.total is None:
        # How many there will be is not known: what there are is all that can be shown.
        progress.update(bar, total=progress.tasks[bar].completed)


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    add = group.add_argument
    add(
        "--out", type=Path, required=True, metavar="DIR",
        help="write DIR/table, DIR/stream and a note of what made them",
    )  # fmt: skip
    add("--rows", type=int, default=1_000_000, metavar="N", help=f"rows of the stream, at most{_DEFAULT}")
    add("--batch-rows", type=int, default=100_000, metavar="N", help=f"rows of a file{_DEFAULT}")
    add("--only", choices=("table", "stream"), help="write one side alone")
    add(
        "--overwrite", action="store_true",
        help="replace table/ and stream/ also in a directory that generate did not make",
    )  # fmt: skip


def _add_arrival_arguments(parser: argparse.ArgumentParser, kind: Kind) -> None:
    group = parser.add_argument_group(
        "arrival times", "written beside the stream's rows, in seconds on a virtual clock; nothing waits"
    )
    add = group.add_argument
    shown = _DEFAULT if kind.arrivals else " (default: no times)"
    add("--arrivals", choices=ARRIVALS, default=kind.arrivals, help=f"the schedule to take them from{shown}")
    add("--rate", type=float, default=10_000.0, metavar="ROWS", help=f"mean rows per second{_DEFAULT}")
    add("--step", type=float, default=0.1, metavar="SECONDS", help=f"time step of the schedule{_DEFAULT}")
    add(
        "--burst-streams", type=int, default=12, metavar="N",
        help=f"on/off streams that make up the bursts, which last up to 2^N steps{_DEFAULT}",
    )  # fmt: skip


def _arrivals(arguments: argparse.Namespace) -> Arrivals | None:
    if arguments.arrivals is None:
        return None
    seed = arguments.seed
    return make_arrivals(
        arguments.arrivals,
        rows_per_s=arguments.rate,
        step_s=arguments.step,
        streams=arguments.burst_streams,
        seed=seed,
    )


def _add_kind_arguments(parser: argparse.ArgumentParser, kind: Kind) -> None:
    """One option per field of the kind's config, with the field's type, default and help."""
    group = parser.add_argument_group("what to generate")
    hints = typing.get_type_hints(kind.options)
    for each in fields(kind.options):
        name, hint = f"--{each.name.replace('_', '-')}", hints[each.name]
        text, choices = each.metadata["help"], each.metadata["choices"]
        if hint is bool:
            group.add_argument(name, action="store_true", help=text)
            continue
        how: dict[str, Any]
        if typing.get_origin(hint) is tuple:
            how = {"nargs": "+", "metavar": "FILE"}
        elif choices:
            how = {"choices": choices}
        else:
            plain = _plain(hint)
            how = {"type": plain, "metavar": "N" if plain is int else "X"}
        # Where there is no value by default, the help itself says what happens instead.
        shown = "" if each.default in (None, ()) else _DEFAULT
        group.add_argument(name, default=each.default, help=text + shown, **how)


def _plain(hint: Any) -> type:
    """int for int and for `int | None`."""
    if isinstance(hint, types.UnionType):
        return next(each for each in typing.get_args(hint) if each is not type(None))
    return typing.cast(type, hint)
