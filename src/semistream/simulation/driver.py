"""Brings a feed, a join and a clock together, phase by phase, and keeps account of the time that rows spend."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from semistream.core.metrics import METRIC_NAMES, JoinMetrics
from semistream.cost_model.clock import Clock, VirtualClock
from semistream.joins import RunningJoin
from semistream.simulation.feed import Arrived, Feed
from semistream.simulation.intervals import Interval, difference


@dataclass(eq=False)
class Driver:
    """The clock is looked at before and after each phase of the loop: rows enter evenly over the phase in which
    they do, and leave at the end of the step that serves them. A step that reads many pages for all who wait serves
    them one after the other (`leaves_evenly`).

    Where output keeps the order of the stream, a row is there until its turn has come: until it and all before it have
    left the loop.
    """

    join: RunningJoin
    feed: Feed
    clock: Clock
    leaves_evenly: bool = False
    row_s: float = 0.0
    held_row_s: float = 0.0
    buffer_row_s: float = 0.0
    idle_s: float = 0.0
    waiting_max: int = 0
    _seen_s: float = 0.0
    _seen_waiting: int = 0
    _seen_out_held: int = 0
    _begun_s: float = 0.0
    _begun: JoinMetrics = field(default_factory=JoinMetrics)

    def __post_init__(self) -> None:
        # Opening the table took time on the wall's clock.
        self._seen_s = self._begun_s = self.clock.now_s()

    @property
    def rows(self) -> int:
        """Taken since the last cut."""
        metrics, begun = self.join.metrics, self._begun
        return metrics.rows_in - metrics.rows_rejoined - (begun.rows_in - begun.rows_rejoined)

    @property
    def cycles(self) -> int:
        return self.join.path.cycles - self._begun.cycles

    @property
    def seconds(self) -> float:
        return self._seen_s - self._begun_s

    def now_s(self) -> float:
        return self.clock.now_s()

    def advance(self) -> bool:
        """Takes in what has arrived; if nothing has, lets those who wait meet more of R, or the time pass. False: there
        is nothing left to do."""
        arrived = self.feed.take(self.clock.now_s())
        if arrived is not None:
            self._take_in(arrived)
        elif self.join.metrics.rows_waiting or self.join.metrics.rows_held:
            self._step()
            self._settle()
        elif (next_s := self.feed.next_s()) < math.inf:
            self._idle_until(next_s)
        else:
            return False
        return True

    def cut(self) -> Interval:
        """Ends an interval, and begins the next one."""
        self._look(leaving=False)
        metrics = self.join.metrics
        metrics.cycles = self.join.path.cycles
        counters = difference(metrics, self._begun)
        interval = Interval(
            rows=counters.rows_in - counters.rows_rejoined,
            seconds=self.seconds,
            idle_s=self.idle_s,
            row_s=self.row_s,
            held_row_s=self.held_row_s,
            buffer_row_s=self.buffer_row_s,
            waiting_max=self.waiting_max,
            counters=counters,
        )
        self._begun = JoinMetrics(**{name: getattr(metrics, name) for name in METRIC_NAMES})
        self._begun_s = self._seen_s
        self.row_s = self.held_row_s = self.buffer_row_s = self.idle_s = 0.0
        self.waiting_max = self._seen_waiting
        return interval

    # -- inside ------------------------------------------------------------------------------------------

    def _take_in(self, arrived: Arrived) -> None:
        inner: Any = self.join.loop  # either kind lets in what it received itself
        incoming = inner.receive(arrived.rows)
        while incoming.left:
            before_s, at = self._seen_s, incoming.at
            self._consume(inner.let_in(incoming), leaving=False)
            if arrived.at_s is not None:
                entered_s = np.linspace(before_s, self._seen_s, incoming.at - at)
                waited_s = entered_s - arrived.at_s[at : incoming.at]
                self.buffer_row_s += float(np.maximum(waited_s, 0.0).sum())
            if incoming.left:
                self._step()
        while self.join.is_due():
            self._step()
        self._settle()

    def _step(self) -> None:
        self._consume(self.join.loop.step(), leaving=True)

    def _settle(self) -> None:
        self._consume(self.join.loop.settle(), leaving=False)

    def _consume(self, output: Iterator[pa.RecordBatch], *, leaving: bool) -> None:
        for _ in output:
            pass
        self._look(leaving=leaving)

    def _look(self, *, leaving: bool) -> None:
        now_s, metrics = self.clock.now_s(), self.join.metrics
        waiting, held = metrics.rows_waiting + metrics.rows_held, metrics.rows_out_held
        at_end = leaving and not self.leaves_evenly
        there = self._seen_waiting if at_end else (self._seen_waiting + waiting) / 2
        held_there = self._seen_out_held if at_end else (self._seen_out_held + held) / 2
        self.row_s += (now_s - self._seen_s) * there
        self.held_row_s += (now_s - self._seen_s) * held_there
        self._seen_s, self._seen_waiting, self._seen_out_held = now_s, waiting, held
        self.waiting_max = max(self.waiting_max, waiting)

    def _idle_until(self, moment_s: float) -> None:
        started_s = self.clock.now_s()
        self.clock.idle(max(0.0, moment_s - started_s))
        if isinstance(self.clock, VirtualClock) and self.clock.now_s() < moment_s:
            # A sum may end a rounding error below the moment, and nobody would ever have arrived.
            self.clock.idle(2 * math.ulp(moment_s))
        self._look(leaving=False)
        self.idle_s += self._seen_s - started_s
