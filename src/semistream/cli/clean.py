"""Remove the front stages that queries left on this machine.

Those of this user that no task is using at this moment. A query that runs goes on with a cold cache. Needs no Spark.
"""

from __future__ import annotations

import argparse

from semistream.cli.output import console
from semistream.core.budget import format_bytes
from semistream.front_stage.region import remove_all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(arguments: argparse.Namespace) -> None:
    files, size_bytes = remove_all()
    console().print(f"removed {files} front stage(s), {format_bytes(size_bytes)}.", markup=False)
