"""Planned access: all pages that the waiting keys need are known, so they are read once, in physical order, many in
flight; where reading through is cheaper than picking, the stretch of R that holds them is scanned.

The choice compares what both ways cost on this machine, measured while they are used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from semistream.access_path import _kernels as kernels
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, Matches, Waiting, WaitingRoom
from semistream.core.keys import KeyBatch
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.master_table import _page_kernels as page_kernels
from semistream.master_table.contract import Table, TableShard, misplaced

PAGE_SECONDS_GUESS = 10e-6
BYTE_SECONDS_GUESS = 1 / 1.5e9
ROW_SECONDS = 0.2e-6
STEP_SECONDS = 0.3e-3
PAGES_IN_FLIGHT = 512
BYTES_IN_FLIGHT_MAX = 64 << 20
SCAN_BYTES_IN_FLIGHT = 16 << 20
WARM_PAGE_SECONDS = 6e-6  # a page that comes faster was in memory: asking for it ahead would only cost
WINDOW_PAGES_MAX = 256
ROWS_AT_ONCE = 1 << 14


@dataclass
class ReadCosts:
    """Seconds per page picked and per byte scanned, matching included: a guess first, then what was measured.

    A sample counts with a fifth, and as no more than four times what was expected: one stall (a kernel being
    compiled, another process's burst) must not decide for long. What is not used drifts back to the guess,
    so that it is tried again one day.
    """

    page_seconds: float = PAGE_SECONDS_GUESS
    byte_seconds: float = BYTE_SECONDS_GUESS
    row_seconds: float = ROW_SECONDS  # of these, matching a row, which no company makes cheaper
    step_seconds: float = STEP_SECONDS  # of a step, whoever is served

    def picked(self, pages: int, seconds: float) -> None:
        sample = min(seconds / max(pages, 1), 4 * self.page_seconds)
        self.page_seconds += 0.2 * (sample - self.page_seconds)
        self.byte_seconds += 0.01 * (BYTE_SECONDS_GUESS - self.byte_seconds)

    def scanned(self, size_bytes: int, seconds: float) -> None:
        sample = min(seconds / max(size_bytes, 1), 4 * self.byte_seconds)
        self.byte_seconds += 0.2 * (sample - self.byte_seconds)
        self.page_seconds += 0.01 * (PAGE_SECONDS_GUESS - self.page_seconds)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """The pages to read of one shard, numbered as slots 0 to count-1, and each key's range of them.

    The pages are listed as they are asked for: a key may have rows in very many.
    """

    first_page: I64
    last_page: I64
    first_slot: I64
    last_slot: I64
    count: int
    is_scan: bool

    @property
    def stretches(self) -> int:
        """Runs of neighbouring pages."""
        return int(kernels.stretches(self.first_page, self.last_page))

    @classmethod
    def of(cls, first_page: I64, last_page: I64, *, scan_from: int = -1, scan_pages: int = 0) -> _Plan:
        """Picks the pages of all ranges, or scans a stretch that holds them."""
        first_slot, last_slot = np.empty_like(first_page), np.empty_like(last_page)
        if scan_pages:
            absent = last_page < first_page
            first_slot = np.where(absent, 0, first_page - scan_from)
            last_slot = np.where(absent, -1, last_page - scan_from)
            first_page = np.array([scan_from], np.int64)
            last_page, count = first_page + scan_pages - 1, scan_pages
        else:
            count = int(kernels.page_slots(first_page, last_page, first_slot, last_slot))
        return cls(
            first_page=first_page,
            last_page=last_page,
            first_slot=first_slot,
            last_slot=last_slot,
            count=count,
            is_scan=scan_pages > 0,
        )


class _PageList:
    """The pages of a plan from the first to the last, some at a time."""

    def __init__(self, plan: _Plan) -> None:
        self._plan, self._state = plan, np.zeros(2, np.int64)

    def next(self, count: int) -> I64:
        pages = np.empty(count, np.int64)
        filled = kernels.next_pages(self._plan.first_page, self._plan.last_page, self._state, pages)
        return pages[:filled]


class _Progress:
    """How far the keys of one shard are matched, and what was not handed out yet."""

    def __init__(self, keys: int) -> None:
        self.state = np.zeros(4, np.int64)
        self.state[page_kernels.ROW] = -1
        self.counts = np.zeros(keys, np.int64)
        self._first_key, self._continued, self._rows_before = 0, False, 0

    def matches(self, waiting: Waiting, first_key: int, row_at: I64, *, complete: bool) -> Matches:
        """What was found since the last call, which the addresses must be consumed before. These keys are the
        waiting ones from `first_key` on."""
        key = int(self.state[page_kernels.KEY])
        # The key that the matching stands at may have begun; a complete one never is the last.
        stop = self.counts.size if complete else min(key + 1, self.counts.size)
        counts = self.counts[self._first_key : stop].copy()
        before, whole = np.zeros(counts.size, np.int64), np.ones(counts.size, np.bool_)
        leaving = np.ones(counts.size, np.bool_)
        if self._continued:
            before[0], whole[0] = self._rows_before, False
        unfinished = not complete and key < self.counts.size
        self._rows_before = 0
        if unfinished:
            leaving[-1] = whole[-1] = False
            self._rows_before = int(counts[-1] + before[-1])
        found = Matches(
            waiting=waiting,
            first_key=first_key + self._first_key,
            counts=counts,
            row_at=row_at[: self.state[page_kernels.ROWS]],
            before=before,
            whole=whole,
            leaving=leaving,
        )
        self.state[page_kernels.ROWS] = 0
        self.counts[key : key + 1] = 0
        self._first_key, self._continued = key, unfinished
        return found


def open_shards(table: Table, shards: list[int], budget: MemoryBudget) -> dict[int, TableShard]:
    """Opened for an access path, which closes them. Reserves their fences, and one page buffer for all of them if the
    files cannot be mapped."""
    budget.reserve("fences", table.fence_bytes(shards))
    opened = {shard: table.open_shard(shard) for shard in shards}
    budget.reserve("page buffer", max(shard.buffer_bytes for shard in opened.values()))
    return opened


class PlannedAccess:
    """Finds rows in the pages of some shards of a table, for all who wait at once.

    Cost: each needed page is touched once per step. Memory: row addresses, beside what `open_shards` reserves.
    """

    def __init__(
        self,
        table: Table,
        shards: Mapping[int, TableShard],
        room: WaitingRoom,
        *,
        budget: MemoryBudget,
        metrics: JoinMetrics,
        costs: ReadCosts,
    ) -> None:
        self._room, self._readers = room, shards
        self.layout: RowLayout = table.layout
        self._page_bytes = table.page_bytes
        self._metrics, self._costs = metrics, costs
        address_bytes = row_address_bytes(budget.total_bytes)
        budget.reserve("row addresses", address_bytes)
        self._row_at = np.empty(address_bytes // 8, np.int64)
        self._ended_at: tuple[TableShard, int] | None = None

    @property
    def cycles(self) -> int:
        """It has none, but for rooms that are emptied in rounds."""
        return 0

    def step(self) -> Iterator[Matches]:
        """All rows of all keys that wait, window by window."""
        waiting = self._room.take()
        if waiting is not None:
            yield from self._serve(waiting)

    def _serve(self, waiting: Waiting) -> Iterator[Matches]:
        self._metrics.drains += 1
        shards = waiting.shards
        bounds = np.flatnonzero(np.diff(shards, prepend=-1, append=-1))
        for first, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            reader = self._reader(int(shards[first]))
            yield from self._fetch_shard(reader, waiting, first, stop)
            reader.let_go()  # one buffer is reserved for all shards

    def _reader(self, shard: int) -> TableShard:
        if shard not in self._readers:
            raise misplaced(shard, self._readers)
        return self._readers[shard]

    def _fetch_shard(self, reader: TableShard, waiting: Waiting, first: int, stop: int) -> Iterator[Matches]:
        """The rows of the waiting keys first..stop-1."""
        keys = waiting.keys.slice(first, stop)
        plan, size = self._plan(reader, keys), min(WINDOW_PAGES_MAX, reader.pages_at_once)
        progress = _Progress(len(keys))
        seconds, asked = 0.0, 0
        in_flight = min(PAGES_IN_FLIGHT, max(2, BYTES_IN_FLIGHT_MAX // self._page_bytes))
        if plan.is_scan:
            in_flight = max(2, SCAN_BYTES_IN_FLIGHT // self._page_bytes)
        is_warm = self._costs.page_seconds < WARM_PAGE_SECONDS and not plan.is_scan
        here, ahead = _PageList(plan), _PageList(plan)
        for window in range(0, max(1, plan.count), size):
            pages = here.next(size)
            done = window + pages.size
            started = time.perf_counter()
            if not is_warm and asked < plan.count and asked - done < in_flight // 2:
                wanted = ahead.next(max(asked, done) + in_flight - asked)
                reader.prefetch(wanted)
                asked += wanted.size
            page_at = reader.fetch(pages)
            while True:
                outcome = self._match(reader, keys, plan, window, pages, page_at, progress)
                seconds += time.perf_counter() - started
                # Addresses in a buffer end with its window.
                if outcome == page_kernels.WINDOW_DONE and (reader.is_mapped or done == plan.count):
                    break
                yield progress.matches(waiting, first, self._row_at, complete=False)
                started = time.perf_counter()
                if outcome == page_kernels.WINDOW_DONE:
                    break
        yield progress.matches(waiting, first, self._row_at, complete=True)
        self._account(reader, plan, seconds)

    def _plan(self, reader: TableShard, keys: KeyBatch) -> _Plan:
        first_page, last_page = reader.fences.locate(keys)
        needed = int(kernels.range_total(first_page, last_page))
        low, stop = int(first_page.min(initial=reader.info.pages)), int(last_page.max(initial=-1)) + 1
        pick = needed * self._costs.page_seconds
        if self._ended_at is not None and self._ended_at[0] is reader:
            # To go on from where the last scan ended may be cheaper than to begin anew a little further on.
            between = low - self._ended_at[1]
            if 0 < between * self._page_bytes * self._costs.byte_seconds < self._costs.page_seconds:
                low -= between
        span = max(0, stop - low)
        scan = span * self._page_bytes * self._costs.byte_seconds
        if needed and scan < pick:
            return _Plan.of(first_page, last_page, scan_from=low, scan_pages=span)
        return _Plan.of(first_page, last_page)

    def _match(
        self,
        reader: TableShard,
        keys: KeyBatch,
        plan: _Plan,
        window: int,
        pages: I64,
        page_at: I64,
        progress: _Progress,
    ) -> int:
        layout = self.layout
        outcome = page_kernels.match(
            page_at, self._page_bytes, reader.seed, pages, window, window + page_at.size,
            layout.end_bytes, layout.variable_at, layout.variable_columns,
            keys.fixed, keys.prefix, keys.offsets, keys.data_address,
            plan.first_slot, plan.last_slot, progress.state, progress.counts, self._row_at,
        )  # fmt: skip
        if outcome == page_kernels.DAMAGED:
            raise reader.damaged(int(pages[progress.state[page_kernels.SLOT] - window]))
        return int(outcome)

    def _account(self, reader: TableShard, plan: _Plan, seconds: float) -> None:
        size_bytes = plan.count * self._page_bytes
        if plan.is_scan:
            first = int(plan.first_page[0])
            self._costs.scanned(size_bytes, seconds)
            self._metrics.scans += 1
            self._metrics.read_requests += 1
            self._metrics.random_reads += self._ended_at != (reader, first)
            self._ended_at = (reader, first + plan.count)
        elif plan.count:
            self._ended_at = None
            self._costs.picked(plan.count, seconds)
            self._metrics.lookups += 1
            self._metrics.read_requests += plan.stretches
            self._metrics.random_reads_overlapped += plan.stretches
        self._metrics.pages_read += plan.count
        self._metrics.bytes_read += size_bytes
        self._metrics.read_ns += int(seconds * 1e9)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()


def row_address_bytes(total_bytes: int) -> int:
    """Room for the addresses of rows found; little for a small budget."""
    return 8 * max(256, min(ROWS_AT_ONCE, total_bytes // 1024))
