"""Polars: each batch joined with a scan of the Parquet table, by the streaming engine.

https://docs.pola.rs/user-guide/concepts/streaming
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from semistream.peers.contract import OUTPUT_SCHEMA, CannotRunError, Peer
from semistream.workloads.tables import KEY


class ParquetJoin(Peer):
    """Polars has no limit of memory to set."""

    learns = False

    def build(self) -> None:
        """The table's own files are all it needs."""

    def open(self) -> None:
        if pl.thread_pool_size() != self.setting.threads:
            raise CannotRunError(
                f"Polars runs on {pl.thread_pool_size()} threads here, not {self.setting.threads}.",
                hint="set POLARS_MAX_THREADS before Polars is loaded.",
            )
        self._table: Any = pl.scan_parquet(list(self.setting.table_files))

    def join(self, batch: pa.RecordBatch) -> pa.Table:
        stream: Any = pl.from_arrow(pa.Table.from_batches([batch]))
        joined = stream.lazy().join(self._table, on=KEY, how="inner").collect(engine="streaming")
        return joined.to_arrow().select(OUTPUT_SCHEMA.names).cast(OUTPUT_SCHEMA)

    def files(self) -> list[Path]:
        return list(self.setting.table_files)

    def close(self) -> None: ...
