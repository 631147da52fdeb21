"""Join a directory of Parquet files, read as a stream, with a master table, into Parquet files.

Runs until all files that are there are joined; the next run takes the files that came since.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from semistream.cli.output import console, names, progress_bar
from semistream.core.budget import format_bytes
from semistream.core.metrics import JoinMetrics
from semistream.errors import ConfigError
from semistream.master_table.location import local_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="PARQUET", type=Path, help="a directory of Parquet files: the stream"
    )
    parser.add_argument("store", metavar="STORE", type=Path, help="a master table, see `semistream prepare`")
    parser.add_argument("output", metavar="OUTPUT", type=Path, help="the directory to write Parquet files to")
    parser.add_argument(
        "--on",
        action="append",
        required=True,
        metavar="COLUMN[=KEY][,...]",
        help="the stream's column(s) to join on; with =KEY where the table's key has another name",
    )
    parser.add_argument(
        "--how", default="inner", metavar="KIND", help="inner, left, semi or anti (default: %(default)s)"
    )
    parser.add_argument(
        "--memory", default="256 MiB", metavar="BYTES", help="what the join may hold (default: %(default)s)"
    )
    parser.add_argument(
        "--columns", action="append", metavar="COLUMN[,...]", help="the table's columns to add (default: all)"
    )
    parser.add_argument("--suffix", help="appended to names of the table's columns that the stream has, too")
    parser.add_argument("--tasks", type=int, help="parallel tasks (default: one per core)")
    parser.add_argument(
        "--batch-files",
        type=int,
        default=16,
        metavar="N",
        help="files per micro-batch (default: %(default)s)",
    )
    parser.add_argument(
        "--checkpoint", type=Path, help="where the progress is kept (default: _checkpoint in OUTPUT)"
    )


def run(arguments: argparse.Namespace) -> None:
    out = console()
    if arguments.batch_files < 1:
        raise ConfigError(f"--batch-files {arguments.batch_files} is out of range.", hint="use 1 or more.")
    from semistream.spark.follow import follow
    from semistream.spark.parquet_join import CHECKPOINT_NAME, ParquetJoin
    from semistream.spark.quiet import quiet_session

    output = local_path(arguments.output, name="OUTPUT")
    checkpoint = arguments.checkpoint and local_path(arguments.checkpoint, name="--checkpoint")
    job = ParquetJoin(
        source=local_path(arguments.source, name="PARQUET"),
        store=local_path(arguments.store, name="STORE"),
        output=output,
        checkpoint=checkpoint or output / CHECKPOINT_NAME,
        on=parse_on(arguments.on),
        how=arguments.how,
        memory=arguments.memory,
        columns=names(arguments.columns),
        suffix=arguments.suffix,
        tasks=arguments.tasks,
        files_per_batch=arguments.batch_files,
    )
    job.check()
    with out.status("starting Spark"):
        spark = quiet_session("semistream-join", debug=arguments.debug)
        query = job.start(spark)
        rows_total = job.rows_ahead()
    started, total = time.perf_counter(), JoinMetrics()
    rows = batches = 0
    with progress_bar("rows", on=out) as progress:
        task = progress.add_task("joining", total=rows_total, note="")
        for batch in follow(query):
            rows, batches = rows + batch.rows, batches + 1
            total.add(batch.join or JoinMetrics())
            hits = (batch.join or total).hit_ratio
            note = f"{batch.rows / max(batch.seconds, 1e-3):,.0f} rows/s  hit ratio {hits:.3f}"
            progress.update(task, completed=rows, total=max(rows, rows_total), note=note)
    if not batches:
        out.print(f"nothing new in {arguments.source} since the last run.", soft_wrap=True, markup=False)
        return
    seconds = time.perf_counter() - started
    out.print(
        f"joined {rows:,} rows into {total.rows_out:,} in {batches} batch(es) and {seconds:.1f} s "
        f"({rows / seconds:,.0f} rows/s): {arguments.output}\n"
        f"hit ratio {total.hit_ratio:.3f}, {total.pages_read:,} pages ({format_bytes(total.bytes_read)}) read, "
        f"{total.rows_unmatched:,} rows without a match",
        soft_wrap=True,
        markup=False,
    )


def parse_on(options: list[str]) -> str | list[str] | dict[str, str]:
    """`a,b` as a list of names, `a=x,b` as a mapping from the stream's columns to the table's."""
    pairs = [name.partition("=") for name in names(options) or []]
    if any(equals for _, equals, _ in pairs):
        return {stream: master if equals else stream for stream, equals, master in pairs}
    return [stream for stream, _, _ in pairs]
