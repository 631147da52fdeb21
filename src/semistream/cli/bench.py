"""Measure the join against Spark's own stream-static join; writes build/bench.json."""

from __future__ import annotations

import argparse
from pathlib import Path

from semistream.cli.output import console, names
from semistream.errors import ConfigError

RESULTS = Path("build/bench.json")
CORE_RESULTS = Path("build/bench-core.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--large", action="store_true", help="a table of 100 M rows instead of 10 M; takes long"
    )
    parser.add_argument(
        "--core", action="store_true", help=f"the core on one processor, without Spark; writes {CORE_RESULTS}"
    )
    parser.add_argument(
        "--part",
        action="append",
        metavar="PART",
        help="of --core alone: reads, speed, steps, grid, virtual (default: all)",
    )


def run(arguments: argparse.Namespace) -> None:
    if arguments.core:
        _run_core(arguments)
        return
    if arguments.part:
        raise ConfigError("--part is of the core's benchmark.", hint="add --core.")
    from semistream.spark.bench import run as run_benchmark

    run_benchmark(RESULTS, large=arguments.large)


def _run_core(arguments: argparse.Namespace) -> None:
    from semistream.cli.core_report import show
    from semistream.simulation.core_bench import CoreBenchConfig, bench, parts

    if arguments.large:
        raise ConfigError("--large is of the benchmark with Spark.", hint="leave out --large or --core.")
    out = console()
    config = CoreBenchConfig(parts=parts(names(arguments.part)))
    with out.status("") as status:
        result = bench(CORE_RESULTS, config, say=lambda text: status.update(text))
    show({name: found for name, found in result.items() if name in config.parts}, out)
    out.print(f"written to {CORE_RESULTS}")
