"""Show what a master table holds: schema, rows, bytes, pages, versions, shards.

Reads one small file and needs no Spark.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from semistream.cli.output import console
from semistream.core.budget import format_bytes
from semistream.master_table.location import local_path
from semistream.master_table.manifest import Manifest, Version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="STORE", type=Path, help="the directory of a master table")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")


def run(arguments: argparse.Namespace) -> None:
    manifest = Manifest.read(local_path(arguments.path))
    if arguments.json:
        print(json.dumps(describe(arguments.path, manifest), indent=2))
    else:
        _show(arguments.path, manifest)


def describe(path: Path, manifest: Manifest) -> dict[str, Any]:
    """What --json prints: the newest version's properties, its columns, and all versions, oldest first."""
    newest = manifest.newest
    return {
        "path": str(path),
        "store_id": manifest.store_id,
        "key": list(newest.key),
        "columns": [{"name": c.name, "type": c.type, "key": c.name in newest.key} for c in newest.columns],
        **_sizes(newest),
        "versions": [_sizes(version) for version in manifest.versions],
    }


def _sizes(version: Version) -> dict[str, Any]:
    return {
        "version": version.number,
        "committed": _commit_time(version).isoformat(),
        "rows": version.rows,
        "bytes": version.bytes,
        "pages": version.pages,
        "page_bytes": version.page_bytes,
        "shards": len(version.shards),
    }


def _show(path: Path, manifest: Manifest) -> None:
    out, newest = console(), manifest.newest
    out.print(f"master table {path}", style="bold", soft_wrap=True, markup=False)
    out.print(
        f"{newest.rows:,} rows, {format_bytes(newest.bytes)} in {newest.pages:,} pages of "
        f"{format_bytes(newest.page_bytes)}, {len(newest.shards)} shards, key {', '.join(newest.key)}",
        soft_wrap=True,
        markup=False,
    )
    columns = Table("column", "type", "", box=None, header_style="dim", pad_edge=False)
    for column in newest.columns:
        columns.add_row(column.name, column.type, "key" if column.name in newest.key else "")
    versions = Table("version", "committed (UTC)", box=None, header_style="dim", pad_edge=False)
    for name in ("rows", "bytes", "pages", "shards"):
        versions.add_column(name, justify="right")
    for version in manifest.versions:
        versions.add_row(
            str(version.number),
            f"{_commit_time(version):%Y-%m-%d %H:%M:%S}",
            f"{version.rows:,}",
            format_bytes(version.bytes),
            f"{version.pages:,}",
            str(len(version.shards)),
        )
    out.print("", columns, "", versions, sep="\n")


def _commit_time(version: Version) -> datetime:
    return datetime.fromtimestamp(version.committed_us / 1e6, UTC)
