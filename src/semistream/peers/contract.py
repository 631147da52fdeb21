"""What the benchmark asks of every contestant, ours too."""

from __future__ import annotations

import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.errors import SemistreamError
from semistream.peers import page_cache
from semistream.workloads.tables import KEY, STREAM_SCHEMA, TABLE_SCHEMA

OUTPUT_SCHEMA = pa.schema([*STREAM_SCHEMA, *(field for field in TABLE_SCHEMA if field.name != KEY)])
READ_ROWS = 1 << 16
_MARKER = "_built.json"


class CannotRunError(SemistreamError):
    """This contestant cannot take part here, and the message says why."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a contestant gets.

    Parameters
    ----------
    table_files: the master table, as Parquet files in the order of the key.
    table_id: differs for tables with other rows.
    rows: of the table.
    home: a directory of the contestant's own. What it builds there is kept, and used again by the next run.
    memory_bytes: what it may use, as far as it has a setting for that.
    threads: how many it may keep busy.
    """

    table_files: tuple[Path, ...]
    table_id: str
    rows: int
    home: Path
    memory_bytes: int
    threads: int = 2


class Peer(ABC):
    """One contestant. `build` may run in another process than the rest, which is called in this order:
    `open`, `join` or `seconds` as often as one likes, `close`.

    `given_bytes` is the memory it was told to use, None if it cannot be told. `learns`: it keeps rows of the table
    from batch to batch, so that a stream has to warm it up. `format_version` changes when `build` writes other files.
    """

    learns = True
    format_version = 1

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.given_bytes: int | None = None
        self.notes: list[str] = []

    @abstractmethod
    def build(self) -> None:
        """Writes what it needs into `home`, which is empty."""

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def join(self, batch: pa.RecordBatch) -> pa.Table:
        """The rows of the batch that have a master row, with all its columns: OUTPUT_SCHEMA, in any order."""

    @abstractmethod
    def files(self) -> list[Path]:
        """The files that a join may read: what is dropped from the page cache for a cold one."""

    @abstractmethod
    def close(self) -> None: ...

    def seconds(self, batch: pa.RecordBatch) -> float:
        """How long the join of this batch took, whose keys are all in the table."""
        started = time.perf_counter()
        joined = self.join(batch)
        taken = time.perf_counter() - started
        if joined.num_rows != batch.num_rows:
            raise RuntimeError(f"{joined.num_rows:,} rows came out for {batch.num_rows:,}")
        return taken

    def let_go(self) -> None:
        """Gives up what it has mapped of its files: only then the page cache can drop them."""
        page_cache.release_mappings(self.files())

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The master table in the order of the key, a batch at a time."""
        for path in self.setting.table_files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(READ_ROWS, columns=TABLE_SCHEMA.names):
                    yield batch.cast(TABLE_SCHEMA)


def build_if_missing(peer: Peer) -> bool:
    """Builds the peer's files unless they are there, complete and of this table; returns whether it did."""
    home, marker = peer.setting.home, peer.setting.home / _MARKER
    wanted = json.dumps([type(peer).__name__, peer.format_version, peer.setting.table_id])
    if marker.is_file() and marker.read_text() == wanted:
        return False
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    peer.build()
    page_cache.sync(page_cache.files_in(home))
    marker.write_text(wanted)
    return True
