"""Temporal locality: for a while, all stream rows fall into one part of the keys (paper 000, Fig 5g)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from semistream.errors import ConfigError
from semistream.workloads.zipf import Int64s, ZipfConfig, ZipfKeys


@dataclass(frozen=True, kw_only=True)
class LocalityConfig:
    """The stream comes in intervals, each with a Zipf distribution over its own part of the keys.

    The paper's setting: 100 million rows in R, each value N times, so zipf.keys = 100 million / N;
    50 million stream rows in 25 intervals of 2 million; exponent 1.

    Parameters
    ----------
    zipf: keys is the whole domain; exponent and seed hold within every interval.
    intervals: into how many equal parts the domain is cut.
    interval_rows: stream rows of an interval. After the last interval the first one comes again.
    """

    zipf: ZipfConfig
    intervals: int = 25
    interval_rows: int = 2_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.intervals <= self.zipf.keys or self.interval_rows < 1:
            raise ConfigError(
                f"temporal locality needs 1 to {self.zipf.keys} intervals (the keys) of at least one row, "
                f"got intervals={self.intervals}, interval_rows={self.interval_rows}",
                hint="the paper has 25 intervals of 2 million rows",
            )


class LocalityKeys:
    """A `KeySource` of intervals that start at key `domain * i // intervals`, i = 0, 1, ...

    The paper counts intervals from 1 and gives interval I the part from I/25 to (I+1)/25 of the domain,
    which would put the last one outside; here they are counted from 0.
    """

    def __init__(self, config: LocalityConfig) -> None:
        self.config = config
        # A block of rows meets a few intervals, and the next block the same or the next ones.
        self._zipf = lru_cache(maxsize=8)(self._make_zipf)

    def bounds(self, interval: int) -> tuple[int, int]:
        """(first key, first key after) of an interval, counted from 0."""
        keys, n = self.config.zipf.keys, self.config.intervals
        return keys * interval // n, keys * (interval + 1) // n

    def keys(self, *, batch: int, rows: int) -> Int64s:
        out = np.empty(rows, dtype=np.int64)
        start, filled = batch * rows, 0
        while filled < rows:
            number, within = divmod(start + filled, self.config.interval_rows)
            count = min(rows - filled, self.config.interval_rows - within)
            interval = number % self.config.intervals
            # Intervals shorter than a batch come again within it, and must then draw other keys.
            drawn = self._zipf(interval).keys(batch=start + filled, rows=count)
            out[filled : filled + count] = drawn + self.bounds(interval)[0]
            filled += count
        return out

    def _make_zipf(self, interval: int) -> ZipfKeys:
        low, high = self.bounds(interval)
        zipf = self.config.zipf
        # Which keys of a part are hot must not repeat from part to part.
        seed = int(np.random.SeedSequence([zipf.seed, 0x10CA1, interval]).generate_state(1)[0])
        return ZipfKeys(
            ZipfConfig(keys=high - low, exponent=zipf.exponent, seed=seed, scattered=zipf.scattered)
        )
