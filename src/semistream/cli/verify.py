"""Check every page of a master table against its checksum.

All versions that the store keeps, each file once. Needs no Spark, and about 2 MiB of memory.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import semistream
from semistream.cli.output import console, progress_bar
from semistream.core.budget import format_bytes
from semistream.errors import CorruptionError
from semistream.master_table.location import local_path
from semistream.master_table.manifest import Manifest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="STORE", type=Path, help="the directory of a master table")


def run(arguments: argparse.Namespace) -> None:
    """CorruptionError if anything is damaged; every damaged file is named, with its first bad page."""
    out = console()
    versions = Manifest.read(local_path(arguments.path)).versions
    files = {shard.file: (version, at) for version in versions for at, shard in enumerate(version.shards)}
    pages = sum(version.shards[at].pages for version, at in files.values())
    size_bytes = sum(version.shards[at].bytes for version, at in files.values())
    damage: list[CorruptionError] = []
    with progress_bar("pages", on=out) as progress:
        task = progress.add_task("verifying", total=pages, note="")
        for version, at in files.values():
            table = semistream.MasterTable.open(arguments.path, version=version.number)
            try:
                shard = table.open_shard(at)
                for count in shard.verify():
                    progress.advance(task, count)
                shard.close()
            except CorruptionError as error:
                damage.append(error)
    if damage:
        for earlier in damage[:-1]:
            print(f"error: {earlier.message}", file=sys.stderr)
        raise damage[-1]
    out.print(
        f"{arguments.path} is sound: {pages:,} pages ({format_bytes(size_bytes)}) in {len(files)} files, "
        f"{len(versions)} version(s).",
        soft_wrap=True,
        markup=False,
    )
