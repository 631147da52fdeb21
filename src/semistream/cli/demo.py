"""Show the whole way once, with verification, on TPC-H customers and skewed orders.

Everything is made on this machine, under build/demo; it takes about three minutes on two cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from semistream.cli.output import console
from semistream.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--directory", type=Path, default=Path("build/demo"), help="for all files (default: %(default)s)"
    )
    parser.add_argument(
        "--scale", type=float, metavar="SF", help="TPC-H scale factor; 1 is 150,000 customers"
    )
    parser.add_argument("--batches", type=int, metavar="N", help="micro-batches of orders")
    parser.add_argument("--batch-rows", type=int, metavar="N", help="orders in a micro-batch")


def run(arguments: argparse.Namespace) -> None:
    """SemistreamError if the join's output differs from the plain batch join's."""
    for name in ("batches", "batch_rows", "scale"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{option} {value} is out of range.",
                hint="use a number above 0." if name == "scale" else "use 1 or more.",
            )
    from semistream.spark.demo import DemoConfig, run_demo

    given = {name: getattr(arguments, name) for name in ("scale", "batches", "batch_rows")}
    config = DemoConfig(**{name: value for name, value in given.items() if value is not None})
    run_demo(config, arguments.directory, console=console(), debug=arguments.debug)
