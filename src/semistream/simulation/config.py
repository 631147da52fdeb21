"""How a join is run and measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from semistream.cost_model.profiles import NVME, DeviceProfile
from semistream.errors import ConfigError

ClockName = Literal["virtual", "wall"]


@dataclass(frozen=True, kw_only=True)
class SimulationConfig:
    """Warm-up, then measured intervals. All is decided by these numbers, the table and the stream.

    Parameters
    ----------
    algorithm, how: a name in `joins.ALGORITHMS`, and a kind of join.
    ordered: whether output keeps the order of the stream. A row is in the join until its turn has come.
    memory_bytes: what the join may hold.
    clock: "virtual" charges the counters to `device`; "wall" takes the time that passes here.
    device: on the wall clock it is only what predictions are made for.
    warm_up_rows, warm_up_cycles: both are reached before anything is measured. A join that waits for a cycle needs one
        to fill up, a front stage some ten rows for each row it holds.
    intervals, interval_rows: how many parts are measured, and the rows of each, to within a batch.
    interval_cycles: an interval goes on until R was read through so often. Where all rows come and go at one place
        of the cycle (R-MESHJOIN), only whole cycles are alike.
    interval_s: so long on the clock is as good as `interval_rows`; 0 for never.
    batch_rows: at most so many rows come in before the stream is looked at again. An interval ends with a batch.
    max_delay_s: no row waits longer in the waiting room, for `adaptive`; infinite: as long as it takes.
    first_row: where in the stream to begin. A stream's rows follow from the seed of its own config; another
        first row of the same stream is another sample of it.
    """

    algorithm: str = "adaptive"
    how: str = "inner"
    ordered: bool = False
    memory_bytes: int
    clock: ClockName = "virtual"
    device: DeviceProfile = NVME
    warm_up_rows: int = 0
    warm_up_cycles: int = 0
    warm_up_s: float = math.inf
    intervals: int = 10
    interval_rows: int = 100_000
    interval_cycles: int = 0
    interval_s: float = 0.0
    batch_rows: int = 4096
    max_delay_s: float = math.inf
    first_row: int = 0

    def __post_init__(self) -> None:
        if self.clock not in ("virtual", "wall"):
            raise ConfigError(f"there is no clock {self.clock!r}.", hint='choose "virtual" or "wall".')
        if min(self.intervals, self.interval_rows, self.batch_rows) < 1:
            raise ConfigError(
                f"nothing would be measured with {self.intervals} intervals of {self.interval_rows} rows, pushed "
                f"{self.batch_rows} at a time.",
                hint="each must be 1 or more.",
            )
        least = min(self.warm_up_rows, self.warm_up_cycles, self.first_row, self.interval_cycles)
        if least < 0 or not min(self.interval_s, self.warm_up_s) >= 0:
            raise ConfigError(
                "warm-up, first row and the length of an interval cannot be negative.",
                hint="0 measures from the first row on.",
            )

    @property
    def rows(self) -> int:
        """About how many rows it takes, cycles and time limits apart."""
        return self.warm_up_rows + self.intervals * self.interval_rows
