"""Keys of streams that follow the papers' real data, without the rows around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from semistream.workloads.cloud import CloudReports, ReportConfig
from semistream.workloads.contracts import random_generator
from semistream.workloads.zipf import Int64s

LONGITUDES = 36_001  # 0 .. 36000 hundredths of a degree
_TAG = 0x7C8


@dataclass(frozen=True, kw_only=True)
class TpchOrderKeys:
    """A `KeySource`: the customers of TPC-H's orders, counted from 0. Customers whose number, counted from 1, is a
    multiple of three place no orders; the others are equally likely (TPC-H 4.2.3)."""

    customers: int
    seed: int = 0

    @property
    def ordering(self) -> int:
        """Customers who place orders."""
        return self.customers - self.customers // 3

    def keys(self, *, batch: int, rows: int) -> Int64s:
        drawn = random_generator(self.seed, _TAG, batch).integers(0, self.ordering, rows)
        return drawn // 2 * 3 + drawn % 2


@dataclass(frozen=True, kw_only=True)
class WeatherKeys:
    """A `KeySource`: the longitudes of made-up cloud reports (`workloads.cloud`); fewer `longitudes` than the format's
    36,001 make a smaller domain, in the same order."""

    longitudes: int = LONGITUDES
    skew: float = 0.0
    seed: int = 0

    @cached_property
    def _reports(self) -> CloudReports:
        return CloudReports(ReportConfig(side="stream", exponent=self.skew, seed=self.seed))

    def keys(self, *, batch: int, rows: int) -> Int64s:
        longitude = np.asarray(self._reports.read(batch * rows, rows).column("LON")).astype(np.int64)
        return longitude * self.longitudes // LONGITUDES
