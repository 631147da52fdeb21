"""What there is to know of a master table before anything reads its rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.errors import ConfigError
from semistream.master_table.location import local_path
from semistream.master_table.manifest import FILE_NAME, Manifest


@dataclass(frozen=True, kw_only=True)
class MasterFacts:
    """page_bytes is known of a prepared store only; elsewhere it can still be chosen."""

    rows: int
    row_bytes: float
    page_bytes: int | None


def facts_of(master: str | Path) -> MasterFacts:
    """Of a prepared store, or of a Parquet file or directory: its footers are read, and no row."""
    path = local_path(master, name="master")
    if (path / FILE_NAME).exists():
        newest = Manifest.read(path).newest
        return MasterFacts(
            rows=newest.rows, row_bytes=newest.bytes / max(1, newest.rows), page_bytes=newest.page_bytes
        )
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise ConfigError(
            f"no master table at {path}: it is neither a prepared store nor Parquet.",
            hint="pass such a path, or the table's size as --rows and --row-bytes.",
        )
    rows = stored_bytes = 0
    for file in files:
        try:
            footer = pq.read_metadata(file)
        except (pa.ArrowInvalid, OSError) as error:
            raise ConfigError(
                f"the master table's file {file} cannot be read: {str(error).splitlines()[0]}",
                hint="pass a prepared store, a Parquet file, or a directory of them.",
            ) from None
        rows += footer.num_rows
        # Not compressed, but still encoded: dictionaries make this less than the rows will take.
        stored_bytes += sum(footer.row_group(i).total_byte_size for i in range(footer.num_row_groups))
    if rows == 0:
        raise ConfigError(
            f"the master table {path} has no rows; there is nothing to plan.",
            hint="pass the size it will have as --rows and --row-bytes.",
        )
    return MasterFacts(rows=rows, row_bytes=stored_bytes / rows, page_bytes=None)
