"""What `make bench-core` runs on: the Spark benchmark's customers and orders, in a store built without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.errors import SemistreamError
from semistream.master_table.builder import build_store
from semistream.master_table.contract import Table
from semistream.master_table.page_store import MasterTable
from semistream.master_table.virtual import KEY as VIRTUAL_KEY
from semistream.master_table.virtual import VirtualTable, VirtualTableConfig
from semistream.workloads.contracts import RowSource
from semistream.workloads.tables import (
    KEY,
    STREAM_SCHEMA,
    TABLE_ROW_BYTES,
    StreamConfig,
    TableConfig,
    stream_batch,
    write_table,
)
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class CoreData:
    """The benchmark's table in a page store of one shard, and its stream."""

    store: Path
    table_files: tuple[Path, ...]
    rows: int
    skew: float
    seed: int

    @property
    def zipf(self) -> ZipfConfig:
        return ZipfConfig(keys=self.rows, exponent=self.skew, seed=self.seed)

    def memory_bytes(self, share: float) -> int:
        return int(self.rows * TABLE_ROW_BYTES * share)

    def open(self) -> MasterTable:
        return MasterTable.open(self.store)

    def batches(self, rows: int, *, first_batch: int = 0) -> Iterator[pa.RecordBatch]:
        """Orders without end; a batch is the same whenever it is asked for."""
        config = StreamConfig(keys=self.zipf, batch_rows=rows, batches=1)
        keys, number = ZipfKeys(self.zipf), first_batch
        while True:
            yield stream_batch(config, keys, number)
            number += 1

    @property
    def stream(self) -> RowSource:
        return Orders(data=self)


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The orders of a `CoreData` as a `RowSource`. Batches are drawn as wholes, so that their size decides the rows."""

    data: CoreData
    schema: pa.Schema = STREAM_SCHEMA
    rows: int | None = None

    def batches(self, rows: int, *, first: int = 0) -> Iterator[pa.RecordBatch]:
        return self.data.batches(rows, first_batch=first // rows)


def prepare(directory: Path, *, rows: int, skew: float, seed: int, say: Say) -> CoreData:
    """Generates the table as the Spark benchmark does, and builds its store; both are kept and reused."""
    home = directory / (f"{rows // 10**6}M" if rows % 10**6 == 0 else f"{rows // 1000}k")
    say("generating the table, or reusing it")
    files = write_table(TableConfig(rows=rows), home / "table")
    store = home / "core-store"
    if not _is_store(store, rows):
        say("building the store without Spark")
        shutil.rmtree(store, ignore_errors=True)
        build_store(pq.read_table(home / "table"), store, key=KEY, shards=1)
    return CoreData(store=store, table_files=tuple(files), rows=rows, skew=skew, seed=seed)


def grid_store(directory: Path, config: VirtualTableConfig) -> Table:
    """The rows of a virtual table, in a page store; kept and reused."""
    store = directory / f"grid-{config.rows}-{config.rows_per_key}-{config.row_bytes}-{config.seed}"
    if not _is_store(store, config.rows):
        shutil.rmtree(store, ignore_errors=True)
        virtual = VirtualTable(config)
        keys = range(0, config.rows // config.rows_per_key * config.key_stride, config.key_stride)
        build_store(virtual.rows_of(keys), store, key=VIRTUAL_KEY, shards=1, page_size=config.page_bytes)
    return MasterTable.open(store)


def _is_store(store: Path, rows: int) -> bool:
    try:
        return MasterTable.open(store).rows == rows
    except (SemistreamError, OSError):
        return False
