"""The default access path: planned access to those who wait, all at once or part after part of R.

Where the pages that rows need are few and far between, all who wait are served together. Where many rows share a page,
or R is scanned, the room is kept full while R is swept, and the part that the sweep comes to is served. What
reading costs a row, and how much less it would be if more rows waited, is told to whoever divides the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from semistream.access_path.planned import PlannedAccess, ReadCosts
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import Matches
from semistream.core.exchange import Reading
from semistream.core.metrics import JoinMetrics
from semistream.master_table.contract import Table, TableShard
from semistream.waiting_room.swept_room import SweptRoom

SHARED = 1.25  # rows to a page from which on it pays to wait by place
LONE = 1.1  # and until which it does not pay any more
STEP_SHARE = 0.2  # of the time of reading may be spent on stepping from part to part


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """No row waits longer than `delay_s` by the clock `now`."""

    delay_s: float = math.inf
    now: Callable[[], float] = lambda: 0.0


@dataclass
class _Recent:
    """Rows served and what reading for them took, the last part or two of a sweep counting most."""

    rows: float = 0.0
    pages: float = 0.0
    scanned_pages: float = 0.0
    seconds: float = 0.0

    def add(self, rows: int, pages: int, scanned_pages: int, seconds: float, *, memory: float) -> None:
        self.rows = memory * self.rows + rows
        self.pages = memory * self.pages + pages
        self.scanned_pages = memory * self.scanned_pages + scanned_pages
        self.seconds = memory * self.seconds + seconds

    @property
    def rows_per_page(self) -> float:
        return self.rows / max(1.0, self.pages)

    @property
    def elasticity(self) -> float:
        """e: by how many percent reading for a row gets cheaper if one percent more rows wait.

        A scan costs the same whoever waits: 1. Of N pages, B rows spread evenly need N (1 - exp(-x)), with x = B / N, so
        that rows per page are r = x / (1 - exp(-x)) and e = 1 - x / (exp(x) - 1).
        """
        if self.pages <= 0:
            return 0.0
        x = _spread(self.rows_per_page)
        looked_up = 1 + x * math.exp(-x) / math.expm1(-x) if x > 0 else 0.0
        scanned = self.scanned_pages / self.pages
        return scanned + (1 - scanned) * looked_up


def _spread(rows_per_page: float) -> float:
    """x with x / (1 - exp(-x)) = rows_per_page; 0 if rows do not share pages."""
    if rows_per_page <= 1.0:
        return 0.0
    x = 2 * (rows_per_page - 1) if rows_per_page < 1.5 else rows_per_page
    for _ in range(20):
        x = rows_per_page * -math.expm1(-x)
    return x


class Sweep(PlannedAccess):
    """`PlannedAccess` on a room that can be swept.

    Guarantee: with a `Deadline`, a step serves the one who waited longest if he is due. Without one, or where all is due
    at once, a row waits no longer than a sweep takes. Cost and memory: as `PlannedAccess`.
    """

    def __init__(
        self,
        table: Table,
        shards: Mapping[int, TableShard],
        room: SweptRoom,
        *,
        budget: MemoryBudget,
        metrics: JoinMetrics,
        costs: ReadCosts,
        reading: Reading,
        deadline: Deadline | None = None,
    ) -> None:
        super().__init__(table, shards, room, budget=budget, metrics=metrics, costs=costs)
        self._swept, self._reading = room, reading
        self._deadline = deadline or Deadline()
        self._recent = _Recent()
        self._row_seconds = costs.page_seconds  # of the clock, for a row that is served: a guess
        self._step_s = 0.0  # the longest of late
        self._asked_s, self._gap_s = math.inf, 0.0
        self.longest_wait_s = 0.0

    @property
    def cycles(self) -> int:
        return self._swept.cycles

    def is_due(self) -> bool:
        """Would somebody wait too long if R were not read now? All who wait may have to be served before him, and it may
        take as long as it took lately until this is asked again."""
        room, deadline = self._swept, self._deadline
        if math.isinf(deadline.delay_s):
            return False
        now_s = deadline.now()
        if not math.isinf(self._asked_s):
            # What took long counts half after as long as a row may wait.
            gap_s = now_s - self._asked_s
            fading = 0.5 ** (gap_s / deadline.delay_s)
            self._gap_s, self._step_s = max(gap_s, fading * self._gap_s), fading * self._step_s
        self._asked_s = now_s
        serving_s = max(self._step_s, self._row_seconds * room.count)
        return now_s + self._gap_s + serving_s >= room.oldest_s + deadline.delay_s

    def step(self) -> Iterator[Matches]:
        room, deadline, metrics = self._swept, self._deadline, self._metrics
        started_s, oldest_s, due = deadline.now(), room.oldest_s, self.is_due()
        pages, scans = metrics.pages_read, metrics.scans
        waiting = room.take_next(oldest=due)
        if waiting is None:
            return
        yield from self._serve(waiting)
        rows, pages = waiting.order.size, metrics.pages_read - pages
        now_s = deadline.now()
        self._row_seconds += 0.25 * ((now_s - started_s) / rows - self._row_seconds)
        self._learn(rows, pages, scanned=metrics.scans > scans)
        self._step_s = max(now_s - started_s, self._step_s)
        self.longest_wait_s = max(self.longest_wait_s, now_s - oldest_s)
        if not math.isinf(deadline.delay_s):
            # No more may come in than can be served within half of the time.
            room.rows_max = max(1, int(deadline.delay_s / 2 / max(self._row_seconds, 1e-9)))

    def _learn(self, rows: int, pages: int, *, scanned: bool) -> None:
        """What a row cost, and whether it would pay, or still does, to wait by place."""
        recent, costs, room, reading = self._recent, self._costs, self._swept, self._reading
        page_seconds = self._page_bytes * costs.byte_seconds if scanned else costs.page_seconds
        seconds = max(0.0, pages * page_seconds - rows * costs.row_seconds)
        recent.add(
            rows, pages, scanned * pages, seconds, memory=1 - 1 / room.parts if room.is_swept else 0.75
        )
        reading.row_seconds, reading.elasticity = recent.seconds / recent.rows, recent.elasticity
        reading.processor_seconds = max(0.0, self._row_seconds - reading.row_seconds)
        room.is_swept = scanned or recent.rows_per_page > (LONE if room.is_swept else SHARED)
        room.step_rows_min = int(costs.step_seconds / max(STEP_SHARE * reading.row_seconds, 1e-12))
