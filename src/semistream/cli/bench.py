"""Measure the join against Spark's own stream-static join; writes build/bench.json."""

from __future__ import annotations

import argparse
from pathlib import Path

RESULTS = Path("build/bench.json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--large", action="store_true", help="a table of 100 M rows instead of 10 M; takes long"
    )


def run(arguments: argparse.Namespace) -> None:
    from semistream.spark.bench import run as run_benchmark

    run_benchmark(RESULTS, large=arguments.large)
