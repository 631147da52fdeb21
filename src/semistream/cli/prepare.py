"""Write Parquet files as a master table that streams can be joined with.

A distributed sort on this machine's Spark. For tables that Spark reads otherwise there is ss.prepare().
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import semistream
from semistream.cli.output import console, names
from semistream.core.budget import format_bytes
from semistream.errors import ConfigError
from semistream.master_table.location import local_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="PARQUET", type=Path, help="a Parquet file, or a directory of them")
    parser.add_argument(
        "store", metavar="STORE", type=Path, help="the directory to write the master table to"
    )
    parser.add_argument(
        "--key", action="append", required=True, metavar="COLUMN[,...]", help="the column(s) to join on"
    )
    parser.add_argument("--shards", type=int, help="files to split the table into (default: one per core)")
    parser.add_argument("--page-size", default="8 KiB", metavar="BYTES", help="default: %(default)s")
    parser.add_argument("--overwrite", action="store_true", help="replace the table that is at STORE")


def run(arguments: argparse.Namespace) -> None:
    out = console()
    source = local_path(arguments.source, name="PARQUET")
    store = local_path(arguments.store, name="STORE")
    if not source.exists():
        raise ConfigError(
            f"{arguments.source} does not exist.", hint="name a Parquet file or a directory of them."
        )
    from semistream.spark.quiet import quiet_session

    started = time.perf_counter()
    with out.status("starting Spark") as status:
        spark = quiet_session("semistream-prepare", debug=arguments.debug)
        status.update(f"sorting {arguments.source} into shards")
        table = semistream.prepare(
            spark.read.parquet(str(source)),
            store,
            key=names(arguments.key) or [],
            shards=arguments.shards,
            page_size=arguments.page_size,
            overwrite=arguments.overwrite,
        )
    out.print(
        f"prepared {arguments.store}: {table.rows:,} rows, {format_bytes(table.bytes)} in {table.pages:,} pages "
        f"and {table.shards} shards, key {', '.join(table.key)}, version {table.version} "
        f"({time.perf_counter() - started:.1f} s)",
        soft_wrap=True,
        markup=False,
    )
