"""One join, warmed up and measured, on either clock by the same code.

    feed --rows that have arrived--> join --> output, counted and dropped
      ^                                |
      +------------ clock <--counters--+     (virtual time is a function of the counters)

Under the virtual clock a run is deterministic: the same table, stream and config give the same report.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from semistream.access_path.planned import ReadCosts
from semistream.cost_model.clock import Clock, VirtualClock, WallClock
from semistream.cost_model.profiles import DeviceProfile
from semistream.errors import ConfigError
from semistream.joins import check_algorithm, resolve_shape, start_join
from semistream.master_table.contract import Table
from semistream.simulation.config import SimulationConfig
from semistream.simulation.driver import Driver
from semistream.simulation.feed import Endless, Feed, Scheduled
from semistream.simulation.intervals import Interval, Report
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
            row_seconds=0.0,
            step_seconds=device.c_step,
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
    join = start_join(
        table,
        shape,
        algorithm=config.algorithm,
        memory_bytes=config.memory_bytes,
        costs=costs,
        ordered=config.ordered,
        max_delay_s=None if math.isinf(config.max_delay_s) else config.max_delay_s,
        now=lambda: clock.now_s(),
    )
    with join:
        virtual = VirtualClock(device=config.device, work=join.metrics)
        clock: Clock = virtual if config.clock == "virtual" else WallClock()
        leaves_evenly = check_algorithm(config.algorithm).path == "planned" and not config.ordered
        driver = Driver(join, feed, clock, leaves_evenly=leaves_evenly)
        return _measured(driver, config, progress or (lambda done, total: None))


def is_cyclic(algorithm: str) -> bool:
    return check_algorithm(algorithm).path in ("chunks", "cycle")


def _measured(driver: Driver, config: SimulationConfig, progress: Progress) -> Report:
    while (
        (driver.rows < config.warm_up_rows or driver.cycles < config.warm_up_cycles)
        and driver.now_s() < config.warm_up_s
        and driver.advance()
    ):
        progress(driver.rows, config.rows)
    warm_up_rows, warm_up_s = driver.rows, driver.now_s()
    driver.cut()
    intervals: list[Interval] = []
    while len(intervals) < config.intervals:
        more = driver.advance()
        progress(warm_up_rows + sum(each.rows for each in intervals) + driver.rows, config.rows)
        is_long = bool(config.interval_s) and driver.seconds >= config.interval_s and driver.rows > 0
        is_whole = is_long or driver.rows >= config.interval_rows
        if (is_whole and driver.cycles >= config.interval_cycles) or not more:
            if driver.rows:
                intervals.append(driver.cut())
            if not more:
                break
    final = driver.join.finish()
    return Report(
        algorithm=config.algorithm,
        ordered=config.ordered,
        clock=config.clock,
        device=config.device,
        memory_bytes=config.memory_bytes,
        warm_up_rows=warm_up_rows,
        warm_up_s=warm_up_s,
        intervals=tuple(intervals),
        final=final,
    )
