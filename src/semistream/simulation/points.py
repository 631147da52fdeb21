"""A point of the papers' grids: a table that costs nothing to have, and the stream that asks for its keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from semistream.cost_model.frequencies import KeyProfile, zipf_profile
from semistream.errors import ConfigError
from semistream.master_table.virtual import VirtualTable, VirtualTableConfig
from semistream.workloads.contracts import RowSource
from semistream.workloads.synthetic import StreamRows
from semistream.workloads.zipf import ZipfConfig, ZipfKeys


@dataclass(frozen=True, kw_only=True)
class Point:
    """table_rows rows of row_bytes, rows_per_key of each key; a stream by Zipf's law; memory as a share of R's pages.

    sums: does the table have checksums, which a run on the wall clock should pay for; see `VirtualTableConfig`.
    """

    table_rows: int
    skew: float
    memory_share: float
    rows_per_key: int = 1
    row_bytes: int = 120
    stream_row_bytes: int = 20
    page_bytes: int = 8192
    seed: int = 0
    sums: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.memory_share <= 64:
            raise ConfigError(
                f"memory_share={self.memory_share} is not a share of the table.", hint="0.05 is 5 %."
            )

    @cached_property
    def table(self) -> VirtualTable:
        return VirtualTable(
            VirtualTableConfig(
                rows=self.table_rows,
                row_bytes=self.row_bytes,
                rows_per_key=self.rows_per_key,
                page_bytes=self.page_bytes,
                seed=self.seed,
                sums=self.sums,
            )
        )

    @property
    def zipf(self) -> ZipfConfig:
        return ZipfConfig(keys=self.table_rows // self.rows_per_key, exponent=self.skew, seed=self.seed)

    @property
    def stream(self) -> RowSource:
        return StreamRows(keys=ZipfKeys(self.zipf), row_bytes=self.stream_row_bytes, seed=self.seed).source

    @property
    def profile(self) -> KeyProfile:
        return zipf_profile(self.zipf.keys, float(self.skew))

    @property
    def memory_bytes(self) -> int:
        return int(self.table.bytes * self.memory_share)
