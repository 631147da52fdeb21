"""Predict each algorithm's rate or memory for a table and a stream, and recommend one.

Needs neither Spark nor a prepared table: the table's size is enough.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from semistream.cli.output import console, progress_bar
from semistream.core.budget import format_bytes, parse_bytes
from semistream.cost_model.calibration import calibrated
from semistream.cost_model.master import MasterFacts, facts_of
from semistream.cost_model.plan import PAGE_BYTES_CHOICES, Option, Plan, make_plan
from semistream.cost_model.profiles import NAMED_PROFILES, NVME, PROFILE_NAMES, DeviceProfile
from semistream.cost_model.sample import estimate, read_counts
from semistream.cost_model.setting import Setting, Sizes, distinct_keys
from semistream.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    table = parser.add_argument_group("master table")
    table.add_argument("--master", metavar="PATH", type=Path, help="a prepared store, or Parquet")
    table.add_argument("--rows", metavar="N", type=int, help="or its size: rows ...")
    table.add_argument("--row-bytes", metavar="B", type=float, help="... and bytes a row")
    table.add_argument("--rows-per-key", metavar="M", type=float, default=1.0, help="default: 1")
    table.add_argument(
        "--no-index", action="store_true", help="it can only be scanned: leave out all lookups"
    )
    stream = parser.add_argument_group("stream")
    stream.add_argument("--rate", metavar="R", type=float, help="rows per second that must be joined")
    stream.add_argument(
        "--skew", metavar="S", type=float, help="Zipf exponent of the keys, 0 or more (default: 1)"
    )
    stream.add_argument(
        "--sample", metavar="FILE", type=Path, help="a sample of the stream: Parquet, or a key on each line"
    )
    stream.add_argument("--key", metavar="COLUMN", help="the key's column in the sample")
    stream.add_argument("--stream-row-bytes", metavar="B", type=float, default=20.0, help="default: 20")
    stream.add_argument(
        "--unmatched", metavar="SHARE", type=float, default=0.0, help="of rows whose key is not in the table"
    )
    machine = parser.add_argument_group("machine")
    machine.add_argument("--memory", metavar="SIZE", help='what the join may hold, such as "64 MiB"')
    machine.add_argument("--device", choices=PROFILE_NAMES, default="measured", help="default: measured")
    machine.add_argument("--calibrate", action="store_true", help="measure this machine again (some seconds)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")


def run(arguments: argparse.Namespace) -> None:
    facts = _facts(arguments)
    memory_bytes = None if arguments.memory is None else parse_bytes(arguments.memory, name="--memory")
    if memory_bytes is None and arguments.rate is None:
        raise ConfigError(
            "a plan needs the memory, the stream's rate, or both.",
            hint='pass --memory "1 GiB" or --rate 50000.',
        )
    setting, stream_text = _setting(arguments, facts)
    # Whatever is wrong with the arguments is said before the machine is measured.
    setting = replace(setting, device=_device(arguments))
    choices = PAGE_BYTES_CHOICES if facts.page_bytes is None else (facts.page_bytes,)
    plan = make_plan(
        setting,
        memory_bytes=memory_bytes,
        rate=arguments.rate,
        page_bytes_choices=choices,
        has_index=not arguments.no_index,
    )
    if arguments.json:
        print(json.dumps({**plan.to_dict(), "stream": stream_text}, indent=2, allow_nan=False))
    else:
        _show(plan, stream_text)


def _facts(arguments: argparse.Namespace) -> MasterFacts:
    if arguments.master is not None:
        if arguments.rows is not None or arguments.row_bytes is not None:
            raise ConfigError(
                "--master says the table's size already.", hint="leave out --rows and --row-bytes."
            )
        return facts_of(arguments.master)
    if arguments.rows is None or arguments.row_bytes is None:
        raise ConfigError(
            "the master table's size is not known.", hint="pass --master PATH, or --rows N and --row-bytes B."
        )
    return MasterFacts(rows=arguments.rows, row_bytes=arguments.row_bytes, page_bytes=None)


def _setting(arguments: argparse.Namespace, facts: MasterFacts) -> tuple[Setting, str]:
    """The setting, on a device that is still to be replaced, and in words what its stream is like."""
    if arguments.sample is not None and arguments.skew is not None:
        raise ConfigError("--sample and --skew contradict each other.", hint="pass one of them.")
    if arguments.key is not None and arguments.sample is None:
        raise ConfigError("--key names a column of a sample.", hint="pass --sample FILE, too.")
    skew = 1.0 if arguments.skew is None else arguments.skew
    setting = Setting.zipf(
        R_t=facts.rows,
        exponent=skew if arguments.sample is None else 0.0,
        device=NVME,
        m=arguments.rows_per_key,
        u=arguments.unmatched,
        sizes=Sizes(v_S=arguments.stream_row_bytes, v_R=facts.row_bytes),
        page_bytes=facts.page_bytes or 8192,
    )
    if arguments.sample is None:
        return setting, f"Zipf, exponent {skew:g}{' (assumed)' if arguments.skew is None else ''}"
    counts = read_counts(arguments.sample, key=arguments.key)
    sample = estimate(counts, keys=distinct_keys(setting.R_t, setting.m, setting.u))
    text = f"as a sample of {sample.rows:,} rows with {sample.distinct_keys:,} keys; Zipf exponent {sample.exponent:.2f}"
    return replace(setting, keys=sample.profile), text


def _device(arguments: argparse.Namespace) -> DeviceProfile:
    if arguments.device != "measured":
        if arguments.calibrate:
            raise ConfigError(
                f"--device {arguments.device} is not measured.", hint="leave out --calibrate, or --device."
            )
        return NAMED_PROFILES[arguments.device]
    talk = Console(stderr=True, highlight=False)
    with progress_bar("%", on=talk) as bar:
        # Starts to show only if there is something to measure.
        task = bar.add_task("measuring this machine", total=100, note="", visible=False)
        return calibrated(
            fresh=arguments.calibrate,
            report=lambda what, share: bar.update(task, completed=100 * share, note=what, visible=True),
        )


def _show(plan: Plan, stream_text: str) -> None:
    out, setting = console(), plan.setting
    out.print(
        f"{setting.R_t:,} rows of {setting.sizes.v_R:,.0f} bytes ({format_bytes(setting.R_bytes)}), "
        f"{setting.m:g} per key, on {setting.device.name}; stream rows of {setting.sizes.v_S:,.0f} bytes, {stream_text}",
        soft_wrap=True,
        markup=False,
    )
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("algorithm", no_wrap=True)
    for name in _columns(plan):
        table.add_column(name, justify="right", no_wrap=True)
    for option in plan.options:
        style = "bold" if option.algorithm == plan.recommended else None
        table.add_row(option.algorithm, *_cells(option, plan), style=style)
    out.print("", table, "", sep="\n")
    if plan.recommended is None:
        out.print(plan.reason, soft_wrap=True, markup=False)
    else:
        out.print(f"Use {plan.recommended}: {plan.reason}", soft_wrap=True, markup=False)


def _columns(plan: Plan) -> list[str]:
    needed = ["needs"] if plan.rate is not None else []
    return ["rows/s", *needed, "buffer", "cache", "hits", "page", "reading"]


def _cells(option: Option, plan: Plan) -> list[str]:
    needed = []
    if plan.rate is not None:
        finite = option.needed_bytes is not None and math.isfinite(option.needed_bytes)
        needed = [format_bytes(option.needed_bytes or 0.0) if finite else "too slow"]
    found = option.prediction
    if found is None:
        least = f"min {format_bytes(option.minimum_bytes)}" if plan.memory_bytes is not None else "-"
        return [least, *needed, "-", "-", "-", "-", "-"]
    return [
        f"{found.rows_per_s:,.0f}",
        *needed,
        format_bytes(found.disk_buffer_bytes),
        f"{found.cache_share:.0%}",
        f"{found.hit_ratio:.0%}",
        format_bytes(found.page_bytes) if option.needs_index else "any",
        f"{found.reads_share:.0%}",
    ]
