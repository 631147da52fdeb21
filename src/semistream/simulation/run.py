"""One join, warmed up and measured, on either clock by the same code.

    feed --rows that have arrived--> join --> output, counted and dropped
      ^                                |
      +------------ clock <--counters--+     (virtual time is a function of the counters)

Under the virtual clock a run is deterministic: the same table, stream and config give the same report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from semistream.access_path.planned import ReadCosts
from semistream.core.metrics import METRIC_NAMES, JoinMetrics
from semistream.cost_model.clock import Clock, VirtualClock, WallClock
from semistream.cost_model.profiles import DeviceProfile
from semistream.errors import ConfigError
from semistream.joins import RunningJoin, check_algorithm, resolve_shape, start_join
from semistream.master_table.contract import Table
from semistream.simulation.config import SimulationConfig
from semistream.simulation.feed import Arrived, Endless, Feed, Scheduled
from semistream.simulation.intervals import Interval, Report, difference
from semistream.workloads.arrivals import Arrivals
from semistream.workloads.contracts import RowSource

Progress = Callable[[int, int], None]  # rows done, rows to do


class DeviceCosts(ReadCosts):
    """What reading costs on a device, once and for all: what this machine takes would make decisions differ from run
    to run."""

    def __init__(self, device: DeviceProfile, page_bytes: int) -> None:
        page_s = page_bytes / device.sequential_bytes_per_s
        super().__init__(
            page_seconds=device.positioning_s / device.in_flight + device.request_s + page_s,
            byte_seconds=1 / device.sequential_bytes_per_s,
        )

    def picked(self, pages: int, seconds: float) -> None:
        """Nothing is learnt."""

    def scanned(self, size_bytes: int, seconds: float) -> None:
        """Nothing is learnt."""


def run(
    table: Table,
    stream: RowSource,
    config: SimulationConfig,
    *,
    on: str | dict[str, str] = "key",
    arrivals: Arrivals | None = None,
    arrival_step_s: float = 1.0,
    progress: Progress | None = None,
) -> Report:
    """Joins `stream` with `table` as `config` says, and reports what it took.

    Without `arrivals` the stream never runs dry, so that the service rate is measured. With them, rows come when
    the schedule says; who finds nobody arrived goes on with those who wait, and is idle if nobody does. Ends
    early where the stream does. Memory: the join's, and a batch or two.

    >>> from semistream.master_table.virtual import VirtualTable, VirtualTableConfig
    >>> from semistream.workloads import make
    >>> table = VirtualTable(VirtualTableConfig(rows=10_000))
    >>> stream = make("zipf", keys=10_000).stream
    >>> config = SimulationConfig(algorithm="inlj", memory_bytes=1 << 20, intervals=2, interval_rows=500, batch_rows=100)
    >>> report = run(table, stream, config)
    >>> report.rows, report.counters.random_reads > 900
    (1000, True)
    """
    if stream.rows == 0:
        raise ConfigError("the stream has no rows; there is nothing to measure.", hint="pass another one.")
    if max(config.warm_up_cycles, config.interval_cycles) and not is_cyclic(config.algorithm):
        raise ConfigError(
            f"{config.algorithm} does not read R in cycles, so none can be waited for.",
            hint="leave out warm_up_cycles and interval_cycles.",
        )
    shape = resolve_shape(stream.schema, table, on=on, how=config.how, columns=None, suffix="_r")
    feed: Feed = Endless(stream, batch_rows=config.batch_rows, first_row=config.first_row)
    if arrivals is not None:
        feed = Scheduled(
            stream, arrivals, step_s=arrival_step_s, batch_rows=config.batch_rows, first_row=config.first_row
        )
    costs = DeviceCosts(config.device, table.page_bytes) if config.clock == "virtual" else None
    join = start_join(table, shape, algorithm=config.algorithm, memory_bytes=config.memory_bytes, costs=costs)
    with join:
        virtual = VirtualClock(device=config.device, work=join.metrics)
        driver = _Driver(join, feed, virtual if config.clock == "virtual" else WallClock())
        return _measured(driver, config, progress or (lambda done, total: None))


def is_cyclic(algorithm: str) -> bool:
    return check_algorithm(algorithm).path in ("chunks", "cycle")


def _measured(driver: _Driver, config: SimulationConfig, progress: Progress) -> Report:
    metrics = driver.join.metrics
    while (
        (metrics.rows_in < config.warm_up_rows or driver.cycles < config.warm_up_cycles)
        and driver.now_s() < config.warm_up_s
        and driver.advance()
    ):
        progress(metrics.rows_in, config.rows)
    warm_up_rows, warm_up_s = metrics.rows_in, driver.now_s()
    driver.cut()
    intervals: list[Interval] = []
    while len(intervals) < config.intervals:
        more = driver.advance()
        progress(warm_up_rows + sum(each.rows for each in intervals) + driver.rows, config.rows)
        is_long = bool(config.interval_s) and driver.seconds >= config.interval_s and driver.rows > 0
        is_whole = driver.rows >= config.interval_rows and driver.cycles >= config.interval_cycles
        if is_whole or is_long or not more:
            if driver.rows:
                intervals.append(driver.cut())
            if not more:
                break
    final = driver.join.finish()
    return Report(
        algorithm=config.algorithm,
        clock=config.clock,
        device=config.device,
        memory_bytes=config.memory_bytes,
        warm_up_rows=warm_up_rows,
        warm_up_s=warm_up_s,
        intervals=tuple(intervals),
        final=final,
    )


@dataclass(eq=False)
class _Driver:
    """Brings rows and clock together, and keeps the integral of how many rows are in the join."""

    join: RunningJoin
    feed: Feed
    clock: Clock
    row_s: float = 0.0
    buffer_row_s: float = 0.0
    idle_s: float = 0.0
    waiting_max: int = 0
    _seen_s: float = 0.0
    _seen_waiting: int = 0
    _begun_s: float = 0.0
    _begun: JoinMetrics = field(default_factory=JoinMetrics)

    @property
    def rows(self) -> int:
        """Taken since the last cut."""
        return self.join.metrics.rows_in - self._begun.rows_in

    @property
    def cycles(self) -> int:
        return cycles_of(self.join) - self._begun.cycles

    @property
    def seconds(self) -> float:
        return self._seen_s - self._begun_s

    def now_s(self) -> float:
        return self.clock.now_s()

    def advance(self) -> bool:
        """Pushes what has arrived; if nothing has, lets those who wait meet more of R, or the time pass. False: there
        is nothing left to do."""
        arrived = self.feed.take(self.clock.now_s())
        if arrived is not None:
            before_s = self._seen_s
            self._consume(self.join.push(arrived.rows))
            self._count_buffered(arrived, before_s)
        elif self.join.metrics.rows_waiting:
            self._consume(one_step(self.join))
        elif (next_s := self.feed.next_s()) < math.inf:
            self._idle_until(next_s)
        else:
            return False
        return True

    def cut(self) -> Interval:
        """Ends an interval, and begins the next one."""
        self._look()
        metrics = self.join.metrics
        metrics.cycles = cycles_of(self.join)
        counters = difference(metrics, self._begun)
        interval = Interval(
            rows=counters.rows_in,
            seconds=self.seconds,
            idle_s=self.idle_s,
            row_s=self.row_s,
            buffer_row_s=self.buffer_row_s,
            waiting_max=self.waiting_max,
            counters=counters,
        )
        self._begun = JoinMetrics(**{name: getattr(metrics, name) for name in METRIC_NAMES})
        self._begun_s = self._seen_s
        self.row_s = self.buffer_row_s = self.idle_s = 0.0
        self.waiting_max = self._seen_waiting
        return interval

    # -- inside ------------------------------------------------------------------------------------------

    def _consume(self, output: Iterator[pa.RecordBatch]) -> None:
        for _ in output:
            self._look()
        self._look()

    def _look(self) -> None:
        """Between two looks the number of those who wait is taken to change evenly."""
        now_s, waiting = self.clock.now_s(), self.join.metrics.rows_waiting
        self.row_s += (now_s - self._seen_s) * (self._seen_waiting + waiting) / 2
        self._seen_s, self._seen_waiting = now_s, waiting
        self.waiting_max = max(self.waiting_max, waiting)

    def _count_buffered(self, arrived: Arrived, before_s: float) -> None:
        """Rows of a push enter one after the other, evenly over the time that it takes."""
        if arrived.at_s is not None:
            entered_s = np.linspace(before_s, self._seen_s, arrived.at_s.size)
            self.buffer_row_s += float(np.maximum(entered_s - arrived.at_s, 0.0).sum())

    def _idle_until(self, moment_s: float) -> None:
        started_s = self.clock.now_s()
        self.clock.idle(max(0.0, moment_s - started_s))
        if isinstance(self.clock, VirtualClock) and self.clock.now_s() < moment_s:
            # A sum may end a rounding error below the moment, and nobody would ever have arrived.
            self.clock.idle(math.ulp(moment_s))
        self._look()
        self.idle_s += self._seen_s - started_s


def cycles_of(join: RunningJoin) -> int:
    """How often R was read through so far."""
    return join._path.cycles


def one_step(join: RunningJoin) -> Iterator[pa.RecordBatch]:
    """One read of R for those who wait, without a new row: what a join does while its stream is silent."""
    inner = join._join
    yield from inner._step()
    yield from inner._output.flush()
    inner._room.settle()
