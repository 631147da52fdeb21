"""DuckDB: each batch joined with the Parquet table, or with a table of its own that has an index.

https://duckdb.org/docs/stable/guides/performance/ and .../sql/indexes
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semistream.core.budget import format_bytes
from semistream.peers.contract import OUTPUT_SCHEMA, Peer, Setting
from semistream.workloads.tables import KEY

_DOUBLINGS_MAX = 20


class _Duckdb(Peer):
    """Gets the allowed memory as its `memory_limit`; where a query does not run in it, the limit is doubled until it
    does, and the result says so."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.given_bytes = setting.memory_bytes

    def _connect(self, database: str, *, read_only: bool = False, limited: bool = True) -> None:
        config: dict[str, Any] = {
            "threads": self.setting.threads,
            "preserve_insertion_order": False,  # as advised for little memory; a join has no order anyway
            "temp_directory": str(self.setting.home / "spill"),
        }
        self._connection = duckdb.connect(database, read_only=read_only, config=config)
        if limited:
            self._limit(self.setting.memory_bytes)

    def _limit(self, size_bytes: int) -> None:
        """Sets the limit, or the lowest one above it that DuckDB can keep with what it holds already."""
        for size in (size_bytes << doublings for doublings in range(_DOUBLINGS_MAX)):
            with contextlib.suppress(duckdb.OutOfMemoryException):
                self._connection.execute(f"SET memory_limit = '{size}B'")
                self.given_bytes = size
                break
        if self.given_bytes is not None and self.given_bytes > self.setting.memory_bytes:
            allowed, given = format_bytes(self.setting.memory_bytes), format_bytes(self.given_bytes)
            self.notes = [f"does not run in {allowed}; its memory_limit was raised to {given}"]

    def _asked(self, sql: str, batch: pa.RecordBatch) -> pa.Table:
        self._connection.register("s", pa.Table.from_batches([batch]))
        for _ in range(_DOUBLINGS_MAX):
            try:
                return self._connection.sql(sql).to_arrow_table().cast(OUTPUT_SCHEMA)
            except duckdb.OutOfMemoryException:
                assert self.given_bytes is not None
                self._limit(2 * self.given_bytes)
        raise MemoryError(f"DuckDB does not run in {self.given_bytes} bytes")

    def close(self) -> None:
        self._connection.close()


class ParquetJoin(_Duckdb):
    """`FROM s JOIN read_parquet(...)`, with the files' metadata kept from query to query."""

    learns = False

    def build(self) -> None:
        """The table's own files are all it needs."""

    def open(self) -> None:
        self._connect(":memory:")
        self._connection.execute("SET parquet_metadata_cache = true")
        names = ", ".join(f"'{path}'" for path in self.setting.table_files)
        self._sql = f"SELECT * FROM s JOIN read_parquet([{names}]) USING ({KEY})"

    def join(self, batch: pa.RecordBatch) -> pa.Table:
        return self._asked(self._sql, batch)

    def files(self) -> list[Path]:
        return list(self.setting.table_files)


class IndexJoin(_Duckdb):
    """A table with a primary key. DuckDB uses an index for conditions with constants and not for joins, so a batch whose
    distinct keys are few enough for that asks for them as a list, and a larger one joins.

    Few enough is what DuckDB itself scans an index for: 0.1 % of the table or 2048 rows (`index_scan_percentage`,
    `index_scan_max_count`).
    """

    def build(self) -> None:
        self._connect(str(self._path), limited=False)
        first = next(self.rows())
        self._connection.register("columns", pa.Table.from_batches([first.slice(0, 0)]))
        self._connection.execute("CREATE TABLE r AS SELECT * FROM columns")
        self._connection.execute(f"ALTER TABLE r ADD PRIMARY KEY ({KEY})")
        names = ", ".join(f"'{path}'" for path in self.setting.table_files)
        self._connection.execute(f"INSERT INTO r SELECT * FROM read_parquet([{names}]) ORDER BY {KEY}")
        self._connection.execute("CHECKPOINT")
        self._connection.close()

    @property
    def _path(self) -> Path:
        return self.setting.home / "table.duckdb"

    def open(self) -> None:
        self._connect(str(self._path), read_only=True)
        share, count = (
            self._connection.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]
            for name in ("index_scan_percentage", "index_scan_max_count")
        )
        self._listed_max = int(max(float(share) * self.setting.rows, float(count)))

    def join(self, batch: pa.RecordBatch) -> pa.Table:
        keys = pc.unique(batch.column(KEY)).to_numpy()
        where = ""
        if keys.size <= self._listed_max:
            where = f" WHERE {KEY} IN ({', '.join(map(str, np.sort(keys).tolist()))})"
        return self._asked(f"SELECT * FROM s JOIN (SELECT * FROM r{where}) USING ({KEY})", batch)

    def files(self) -> list[Path]:
        return [self._path]
