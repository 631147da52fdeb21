"""Some columns of rows that hold more: how a front stage hands out rows that stand as they do in R's pages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from semistream.core.rows import Addresses, RowLayout


@dataclass(frozen=True, eq=False)
class PageColumns(RowLayout):
    """The columns `positions` of rows in the layout `stored`, for reading; `schema` has just these.

    Cost: that of decoding the chosen columns.
    """

    stored: RowLayout
    positions: tuple[int, ...]

    @classmethod
    def of(cls, stored: RowLayout, positions: tuple[int, ...]) -> PageColumns:
        schema = pa.schema([stored.schema.field(position) for position in positions])
        return cls(schema, stored.end_bytes, stored, positions)

    @cached_property
    def kernel_shape(self) -> tuple[int, int, int]:
        return self.stored.kernel_shape

    def decode(self, rows: Addresses, chosen: tuple[int, ...] | None = None) -> list[pa.Array]:
        mine = self.positions if chosen is None else tuple(self.positions[index] for index in chosen)
        return self.stored.decode(rows, mine)

    def encode(self, columns: list[pa.Array], rows: Addresses) -> None:
        raise AssertionError("rows of R's pages are read only")
