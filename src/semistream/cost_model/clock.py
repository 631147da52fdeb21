"""Two clocks for one loop: the wall's, and one that is a pure function of what was counted."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from semistream.cost_model.profiles import DeviceProfile
from semistream.cost_model.work import Work
from semistream.errors import ConfigError


class Clock(Protocol):
    """Seconds since the clock was made; they never run backwards."""

    def now_s(self) -> float: ...

    def idle(self, seconds: float) -> None:
        """Nothing to do for so long: the stream is slower than the join."""


@dataclass(kw_only=True, eq=False)
class VirtualClock:
    """The time that a device would have taken for the work counted so far, plus the idle time added.

    Deterministic, and free of charge: the counters are kept anyway. The work must only grow.

    >>> from semistream.cost_model.profiles import HDD2012
    >>> from semistream.cost_model.work import Counts
    >>> clock = VirtualClock(device=HDD2012, work=Counts(bytes_read=200e6))
    >>> clock.idle(0.5)
    >>> clock.now_s()
    2.5
    """

    device: DeviceProfile
    work: Work
    idle_s: float = field(default=0.0, init=False)

    def now_s(self) -> float:
        return self.device.seconds(self.work) + self.idle_s

    def idle(self, seconds: float) -> None:
        _check_idle(seconds)
        self.idle_s += seconds

    def idle_until(self, moment_s: float) -> None:
        """Waits for a moment that may have passed already, as for the next row of a scheduled stream."""
        self.idle(max(0.0, moment_s - self.now_s()))


@dataclass(kw_only=True, eq=False)
class WallClock:
    """Real time; idling sleeps."""

    started_s: float = field(default_factory=time.monotonic)

    def now_s(self) -> float:
        return time.monotonic() - self.started_s

    def idle(self, seconds: float) -> None:
        _check_idle(seconds)
        time.sleep(seconds)


def _check_idle(seconds: float) -> None:
    if not seconds >= 0:
        raise ConfigError(
            f"a clock cannot be idle for {seconds} seconds.", hint="time only runs forwards; pass 0 or more."
        )
