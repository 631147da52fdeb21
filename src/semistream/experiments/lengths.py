"""How long to warm up and to measure: until what the algorithm holds has been exchanged, and no longer."""

from __future__ import annotations

from dataclasses import dataclass

from semistream.experiments.scenario import Scenario
from semistream.experiments.variant import Variant
from semistream.memory_split import WAITING_BYTES_MAX, WAITING_BYTES_MIN
from semistream.waiting_room.queue_room import waiting_row_bytes

_ARROW_BYTES = 8  # a stream row in memory takes so many more than its values
_BATCH_ROWS_MAX, _BATCH_ROWS_MIN = 4096, 64
_FILLS_OF_SCANS = 1.25
_HITS_MAX = 0.9
_ROOMS_OF_PLANNED = 10  # a small room that is filled and emptied, as often


@dataclass(frozen=True, kw_only=True)
class Length:
    """The part of a `SimulationConfig` that says how long it runs."""

    warm_up_rows: int
    interval_rows: int
    intervals: int = 5
    warm_up_cycles: int = 0
    interval_cycles: int = 0
    batch_rows: int = _BATCH_ROWS_MAX


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How thorough a figure is.

    seen: stream rows of warm-up for each master row that fits the front stage. fills: as many rows go into the waiting room
    before the measurement as it holds, so often; a queue that is swept needs little more than one. exchanges: how
    often it is exchanged during the measurement. rows_min: measured at least. cycles: R-cycles of warm-up for
    front stages that learn by cycles (ssbj needs 3 to switch the first keys in), of which `cycle_intervals` are measured.
    steps_max: of an algorithm whose every row is a step of its own. seconds: of a stream with a schedule, before and
    during the measurement.
    """

    seen: float = 12.0
    fills: float = 2.0
    exchanges: float = 0.5
    rows_min: int = 20_000
    cycles: int = 6
    cycle_intervals: int = 2
    steps_max: int = 200_000
    seconds: float = 60.0
    intervals: int = 5


DEFAULT_PATIENCE = Patience()


def length_for(scenario: Scenario, variant: Variant, patience: Patience) -> Length:
    """Rows of warm-up and of measurement for this algorithm with this memory."""
    if scenario.arrivals:
        rows = scenario.rows_per_s * patience.seconds
        return Length(
            warm_up_rows=int(rows),
            interval_rows=max(1, int(rows / patience.intervals)),
            intervals=patience.intervals,
        )
    chosen = variant.composition
    memory, share = scenario.memory_bytes, chosen.shares.front_stage
    is_cached = chosen.front_stage != "none"
    cached_rows = is_cached * memory * (1.0 if share is None else share) / scenario.row_bytes
    cached = min(cached_rows / scenario.rows_per_key, float(scenario.key_count))
    row_bytes = waiting_row_bytes(scenario.stream_row_bytes + _ARROW_BYTES)
    waiting = memory / row_bytes
    if chosen.path == "planned":
        room = min(max(memory * (chosen.shares.waiting_room or 1.0), WAITING_BYTES_MIN), WAITING_BYTES_MAX)
        waiting = _ROOMS_OF_PLANNED * room / row_bytes
    if chosen.path == "single":
        waiting = 1.0
    # With hits, more rows come by while the room is exchanged once.
    turnover = waiting / (1 - min(float(scenario.profile.top(cached)), _HITS_MAX))
    fills = min(patience.fills, _FILLS_OF_SCANS) if chosen.path == "chunks" else patience.fills
    warm_up = max(fills * turnover, patience.seen * cached)
    measured = max(float(patience.rows_min), patience.exchanges * turnover)
    if chosen.path == "single":
        warm_up, measured = min(warm_up, patience.steps_max), min(measured, patience.steps_max)
    if chosen.shares.exchanged:  # ssbj: memory moves between room and cache, so rows say little
        return _of_cycles(patience, warm_up_cycles=patience.cycles)
    if chosen.path == "cycle":  # all rows come and go at one place of it, so whole cycles are measured
        return _of_cycles(patience, warm_up_cycles=3)
    interval = max(1, int(measured) // patience.intervals)
    return Length(
        warm_up_rows=int(warm_up),
        interval_rows=interval,
        intervals=patience.intervals,
        batch_rows=min(_BATCH_ROWS_MAX, max(_BATCH_ROWS_MIN, interval // 20)),
    )


def _of_cycles(patience: Patience, *, warm_up_cycles: int) -> Length:
    return Length(
        warm_up_rows=0,
        warm_up_cycles=warm_up_cycles,
        interval_rows=1,
        interval_cycles=1,
        intervals=patience.cycle_intervals,
    )
