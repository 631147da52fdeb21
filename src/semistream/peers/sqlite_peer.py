"""SQLite: a table by rowid, and one join with a temporary table of the batch's keys, over ADBC.

https://www.sqlite.org/rowidtable.html, https://arrow.apache.org/adbc/current/driver/sqlite.html
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi as adbc
import pyarrow as pa

from semistream.peers.contract import Setting
from semistream.peers.lookup import I64, LookupPeer, balance_of, cents_of
from semistream.workloads.tables import KEY, TABLE_SCHEMA

# SQLite has neither decimals nor dates: whole cents, and days since 1970.
_STORED = {"balance": pa.int64(), "since": pa.int32()}
_TYPES = {pa.string(): "TEXT", pa.float64(): "REAL"}
_ROWS_AT_ONCE = 1 << 16


class PointLookups(LookupPeer):
    """Two connections share the allowed memory as their page caches (`cache_size`)."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, lanes=setting.threads)
        self.given_bytes = setting.memory_bytes
        self._connections: list[Any] = []

    @property
    def _path(self) -> Path:
        return self.setting.home / "table.sqlite"

    def build(self) -> None:
        columns = ", ".join(
            f"{field.name} {_TYPES.get(field.type, 'INTEGER')}{' PRIMARY KEY' * (field.name == KEY)}"
            for field in TABLE_SCHEMA
        )
        with adbc.connect(str(self._path), autocommit=True) as connection, connection.cursor() as cursor:
            for pragma in ("journal_mode = OFF", "synchronous = OFF"):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.execute(f"CREATE TABLE r ({columns})")
            cursor.adbc_ingest(
                "r", pa.RecordBatchReader.from_batches(_stored_schema(), self._stored()), mode="append"
            )
            cursor.execute("PRAGMA optimize = 0x10002")

    def _stored(self) -> Iterator[pa.RecordBatch]:
        for batch in self.rows():
            columns = [
                cents_of(column) if name == "balance" else column.cast(_STORED.get(name, column.type))
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_stored_schema())

    def open(self) -> None:
        kibibytes = max(1, self.setting.memory_bytes // self.lanes >> 10)
        for _ in range(self.lanes):
            connection = adbc.connect(f"file:{self._path}?immutable=1", autocommit=True)
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA cache_size = -{kibibytes}")
                cursor.execute("PRAGMA temp_store = MEMORY")
                cursor.execute("CREATE TEMP TABLE k (k INTEGER PRIMARY KEY)")
            self._connections.append(connection)

    def look_up(self, keys: I64, lane: int) -> pa.Table:
        columns = ", ".join(f"r.{name}" for name in TABLE_SCHEMA.names)
        with self._connections[lane].cursor() as cursor:
            cursor.execute("DELETE FROM temp.k")
            cursor.adbc_ingest("k", pa.table({"k": keys}), mode="append", temporary=True)
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_ROWS_AT_ONCE)})
            # CROSS JOIN keeps SQLite's order of the loops: every key is looked up.
            cursor.execute(f"SELECT {columns} FROM temp.k CROSS JOIN r ON r.{KEY} = k.k")
            found = cursor.fetch_arrow_table()
        restored = [
            balance_of(found[name])
            if name == "balance"
            else found[name].cast(_STORED[name]).cast(kind)
            if name in _STORED
            else found[name].cast(kind)
            for name, kind in zip(TABLE_SCHEMA.names, TABLE_SCHEMA.types, strict=True)
        ]
        return pa.table(restored, schema=TABLE_SCHEMA)

    def files(self) -> list[Path]:
        return [self._path]

    def close(self) -> None:
        super().close()
        for connection in self._connections:
            connection.close()


def _stored_schema() -> pa.Schema:
    return pa.schema([(field.name, _STORED.get(field.name, field.type)) for field in TABLE_SCHEMA])
