"""PostgreSQL: a table with a primary key, joined with a temporary table of the batch's keys, over ADBC (binary COPY).

https://www.postgresql.org/docs/current/populate.html, https://arrow.apache.org/adbc/current/driver/postgresql.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from semistream.peers.contract import Setting
from semistream.peers.lookup import I64, LookupPeer
from semistream.peers.page_cache import files_in
from semistream.peers.postgresql_server import Server
from semistream.workloads.tables import KEY, TABLE_SCHEMA

_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.string(): "text",
    pa.float64(): "double precision",
    pa.date32(): "date",
    pa.decimal128(15, 2): "numeric(15,2)",
}
_SHARED_BUFFERS_KIB_MIN, _WORK_MEM_KIB_MIN = 128, 64
_ANALYZED_KEYS_MIN = 10_000  # below, the planner's guess for a new table is near enough


class PointLookups(LookupPeer):
    """`shared_buffers` gets the allowed memory, `work_mem` of each of the two connections a quarter of it on top."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, lanes=setting.threads)
        self.given_bytes = setting.memory_bytes
        self._server = Server(setting.home / "data")
        self._connections: list[Any] = []

    def build(self) -> None:
        self._server.create()
        self._server.start(
            {"fsync": "off", "wal_level": "minimal", "max_wal_senders": 0, "max_wal_size": "16GB"}
        )
        try:
            columns = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in TABLE_SCHEMA)
            with adbc.connect(self._server.uri, autocommit=True) as connection, connection.cursor() as cursor:
                cursor.execute(f"CREATE TABLE r ({columns})")
                reader = pa.RecordBatchReader.from_batches(TABLE_SCHEMA, self.rows())
                cursor.adbc_ingest("r", reader, mode="append")
                cursor.execute(f"ALTER TABLE r ADD PRIMARY KEY ({KEY})")
                cursor.execute("VACUUM (FREEZE, ANALYZE) r")
                cursor.execute("CHECKPOINT")
        finally:
            self._server.stop()

    def open(self) -> None:
        kibibytes = self.setting.memory_bytes >> 10
        self._server.start(
            {
                "shared_buffers": f"{max(_SHARED_BUFFERS_KIB_MIN, kibibytes)}kB",
                "work_mem": f"{max(_WORK_MEM_KIB_MIN, kibibytes // 4)}kB",
                "random_page_cost": 1.1,  # an SSD
                "max_parallel_workers_per_gather": 0,  # the two connections are the two threads
                "jit": "off",
                "fsync": "off",
                "autovacuum": "off",
                "max_connections": 10,
            }
        )
        for _ in range(self.lanes):
            connection = adbc.connect(self._server.uri, autocommit=True)
            with connection.cursor() as cursor:
                cursor.execute("CREATE TEMP TABLE k (k bigint NOT NULL)")
            self._connections.append(connection)

    def look_up(self, keys: I64, lane: int) -> pa.Table:
        columns = ", ".join(f"r.{name}" for name in TABLE_SCHEMA.names)
        with self._connections[lane].cursor() as cursor:
            cursor.execute("TRUNCATE k")
            cursor.adbc_ingest("k", pa.table({"k": keys}), mode="append", temporary=True)
            if keys.size >= _ANALYZED_KEYS_MIN:
                cursor.execute("ANALYZE k")
            cursor.execute(f"SELECT {columns} FROM k JOIN r ON r.{KEY} = k.k")
            found = cursor.fetch_arrow_table()
        restored = [
            _plain(found[name]).cast(kind)
            for name, kind in zip(TABLE_SCHEMA.names, TABLE_SCHEMA.types, strict=True)
        ]
        return pa.table(restored, schema=TABLE_SCHEMA)

    def files(self) -> list[Path]:
        return files_in(self.setting.home / "data" / "base")

    def close(self) -> None:
        super().close()
        for connection in self._connections:
            connection.close()
        self._server.stop()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ADBC hands out `numeric` as text, in an extension type."""
    if isinstance(column.type, pa.BaseExtensionType):
        return column.cast(column.type.storage_type)
    return column
