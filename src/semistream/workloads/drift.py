"""Drift: the hot set moves through the keys while the stream runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from semistream.errors import ConfigError
from semistream.workloads.synthetic import check_choice
from semistream.workloads.zipf import Int64s, ZipfConfig, ZipfKeys

_PERIOD_MAX = 1 << 62


@dataclass(frozen=True, kw_only=True)
class DriftConfig:
    """Within `period` rows, `moved` keys leave the front of the ranking and as many take their place.

    Parameters
    ----------
    zipf: keys, exponent and seed; at every moment the keys are distributed like this.
    period: stream rows in which the hot set moves by `moved` keys.
    moved: how many keys (default: a hundredth of them, at least one).
    pace: "gradual" moves one key at a time, evenly over the period: a fresh key becomes the hottest, and
        every other falls by one rank. "sudden" moves all at once when a period ends.
    """

    zipf: ZipfConfig
    period: int = 1_000_000
    moved: int | None = None
    pace: Literal["gradual", "sudden"] = "gradual"

    def __post_init__(self) -> None:
        check_choice("pace", self.pace, ("gradual", "sudden"))
        if not 1 <= self.period <= _PERIOD_MAX or not 1 <= self.moved_keys <= self.zipf.keys:
            raise ConfigError(
                f"drift needs period in 1 .. 2^62 and moved in 1 .. {self.zipf.keys} (the keys), "
                f"got period={self.period}, moved={self.moved}",
                hint="without drift, use the plain Zipf workload",
            )

    @property
    def moved_keys(self) -> int:
        return max(1, self.zipf.keys // 100) if self.moved is None else self.moved


class DriftKeys:
    """A `KeySource`: rank r of row number n belongs to the key that had rank r - shift(n) at the start.

    The ranks are those of `ZipfKeys`; only which key has which rank changes. Costs as much as that.
    """

    def __init__(self, config: DriftConfig) -> None:
        self.config = config
        self._zipf = ZipfKeys(config.zipf)

    def keys(self, *, batch: int, rows: int) -> Int64s:
        numbers = np.arange(batch * rows, (batch + 1) * rows, dtype=np.int64)
        ranks = self._zipf.ranks(batch=batch, rows=rows)
        return self._zipf.keys_of((ranks - self.shift(numbers)) % self.config.zipf.keys)

    def shift(self, rows: Int64s) -> Int64s:
        """By how many keys the hot set has moved when these rows arrive, modulo the number of keys."""
        periods, within = np.divmod(rows, self.config.period)
        moved = self.config.moved_keys
        # Floating point is exact enough for where a period is, and cannot overflow.
        part = (
            (within * (moved / self.config.period)).astype(np.int64) if self.config.pace == "gradual" else 0
        )
        return (_times(periods, moved, self.config.zipf.keys) + part) % self.config.zipf.keys


def _times(factors: Int64s, factor: int, modulus: int) -> Int64s:
    """The product modulo `modulus`, at most 2^40, in two halves that do not exceed 63 bits."""
    high, low = divmod(factor, 1 << 20)
    factors = factors % modulus
    return ((factors * high % modulus << 20) + factors * low) % modulus
