"""The default access path: all pages that the waiting keys need are known, so they are read once, in
physical order, many in flight; where reading through is cheaper than picking, the shard is scanned.

The choice compares what both ways cost on this machine, measured while they are used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from semistream.access_path import _kernels as kernels
from semistream.core.arrow import address_of
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, Matches, Waiting
from semistream.core.keys import KeyBatch
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.errors import StoreError
from semistream.master_table import _page_kernels as page_kernels
from semistream.master_table.page_store import MasterTable
from semistream.master_table.shard_file import ShardReader

PAGES_IN_FLIGHT = 512
WARM_PAGE_SECONDS = 6e-6  # a page that comes faster was in memory: asking for it ahead would only cost
GATHER_SHARE = 0.4  # of the page buffer's bytes: the rows found, copied together
GATHER_ROW_BYTES = 48  # one address per so many gathered bytes


@dataclass
class ReadCosts:
    """Seconds per page picked and per byte scanned: a guess first, then what was measured."""

    page_seconds: float = 20e-6
    byte_seconds: float = 1 / 1.5e9

    def picked(self, pages: int, seconds: float) -> None:
        self.page_seconds += 0.2 * (seconds / max(pages, 1) - self.page_seconds)

    def scanned(self, size_bytes: int, seconds: float) -> None:
        self.byte_seconds += 0.2 * (seconds / max(size_bytes, 1) - self.byte_seconds)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """The pages to read of one shard, and each key's range of slots among them."""

    pages: I64
    first_slot: I64
    last_slot: I64
    is_scan: bool


class _Progress:
    """How far the keys of one shard are matched, and what was not handed out yet."""

    def __init__(self, keys: int) -> None:
        self.state = np.zeros(6, np.int64)
        self.state[page_kernels.ROW] = self.state[page_kernels.VERIFIED] = -1
        self.counts = np.zeros(keys, np.int64)
        self._first_key, self._continued = 0, False

    def matches(self, row_at: I64, *, unfinished: bool) -> Matches:
        """What was found since the last call; the gather buffer is free for more after it was consumed."""
        key = int(self.state[page_kernels.KEY])
        stop = min(key + 1, self.counts.size) if unfinished else self.counts.size
        found = Matches(
            first_key=self._first_key,
            stop_key=stop,
            counts=self.counts[self._first_key : stop].copy(),
            row_at=row_at[: self.state[page_kernels.ROWS]],
            continued=self._continued,
            unfinished=unfinished,
        )
        self.state[page_kernels.ROWS] = self.state[page_kernels.BYTES] = 0
        self.counts[key : key + 1] = 0
        self._first_key, self._continued = key, unfinished
        return found


class PlannedAccess:
    """Reads the pages of some shards of a table through one buffer of `buffer_bytes`.

    Cost: each needed page is read once per fetch. Memory: the buffer, and the fences of the shards.
    """

    def __init__(
        self,
        table: MasterTable,
        readers: dict[int, ShardReader],
        *,
        budget: MemoryBudget,
        buffer_bytes: int,
        metrics: JoinMetrics,
        costs: ReadCosts,
    ) -> None:
        self.layout: RowLayout = table.layout
        self._page_bytes, self._readers = table.page_bytes, readers
        self._metrics, self._costs = metrics, costs
        gather_bytes = max(int(buffer_bytes * GATHER_SHARE), self._page_bytes)
        self._window_pages = max(1, (buffer_bytes - gather_bytes * 7 // 6) // self._page_bytes)
        self._buffer = np.empty(self._window_pages * self._page_bytes, np.uint8)
        self._gather = np.empty(gather_bytes, np.uint8)
        self._row_at = np.empty(max(1, gather_bytes // GATHER_ROW_BYTES), np.int64)
        budget.reserve("fences", sum(reader.fences.nbytes for reader in readers.values()))
        budget.reserve("page buffer", self._buffer.nbytes + self._gather.nbytes + self._row_at.nbytes)

    def fetch(self, waiting: Waiting) -> Iterator[Matches]:
        shards = waiting.shards
        bounds = np.flatnonzero(np.diff(shards, prepend=-1, append=-1))
        for first, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            reader = self._reader(int(shards[first]))
            keys = waiting.keys.slice(first, stop)
            for matches in self._fetch_shard(reader, keys):
                yield Matches(
                    first_key=first + matches.first_key,
                    stop_key=first + matches.stop_key,
                    counts=matches.counts,
                    row_at=matches.row_at,
                    continued=matches.continued,
                    unfinished=matches.unfinished,
                )

    def _reader(self, shard: int) -> ShardReader:
        if shard not in self._readers:
            raise StoreError(
                f"a row of shard {shard} came to a task that serves the shards {sorted(self._readers)}.",
                hint="rows must be sent by xxhash64 of their key; please report this with your Spark version.",
            )
        return self._readers[shard]

    def _fetch_shard(self, reader: ShardReader, keys: KeyBatch) -> Iterator[Matches]:
        plan, size = self._plan(reader, keys), self._window_pages
        progress = _Progress(len(keys))
        seconds, asked = 0.0, 0
        is_warm = self._costs.page_seconds < WARM_PAGE_SECONDS and not plan.is_scan
        for window in range(0, max(1, plan.pages.size), size):
            pages = plan.pages[window : window + size]
            started = time.perf_counter()
            if not is_warm:
                asked = self._ask_ahead(reader, plan.pages, asked, window + size)
            reader.read(pages, self._buffer)
            seconds += time.perf_counter() - started
            while self._match(reader, keys, plan, window, pages.size, progress) == page_kernels.GATHER_FULL:
                yield progress.matches(self._row_at, unfinished=True)
        yield progress.matches(self._row_at, unfinished=False)
        self._account(plan, seconds)

    def _plan(self, reader: ShardReader, keys: KeyBatch) -> _Plan:
        first_page, last_page = reader.fences.locate(keys)
        bound = int(kernels.range_total(first_page, last_page))
        low = int(first_page.min(initial=reader.info.pages))
        span = max(0, int(last_page.max(initial=-1)) - low + 1)
        pick = bound * self._costs.page_seconds
        scan = span * self._page_bytes * self._costs.byte_seconds
        if bound and scan < pick:
            absent = last_page < first_page
            return _Plan(
                pages=np.arange(low, low + span, dtype=np.int64),
                first_slot=np.where(absent, 0, first_page - low),
                last_slot=np.where(absent, -1, last_page - low),
                is_scan=True,
            )
        pages = np.empty(bound, np.int64)
        first_slot, last_slot = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        count = kernels.distinct_pages(first_page, last_page, pages, first_slot, last_slot)
        return _Plan(pages=pages[:count], first_slot=first_slot, last_slot=last_slot, is_scan=False)

    def _ask_ahead(self, reader: ShardReader, pages: I64, asked: int, reached: int) -> int:
        """Keeps some hundred pages in flight beyond the window that is about to be read."""
        if asked >= pages.size or asked - reached > PAGES_IN_FLIGHT // 2:
            return asked
        until = min(pages.size, max(asked, reached) + PAGES_IN_FLIGHT)
        reader.prefetch(pages[asked:until])
        return until

    def _match(
        self, reader: ShardReader, keys: KeyBatch, plan: _Plan, window: int, size: int, progress: _Progress
    ) -> int:
        layout = self.layout
        outcome = page_kernels.match(
            address_of(self._buffer), self._page_bytes, reader.seed, plan.pages, window, window + size,
            layout.end_bytes, layout.fixed_bytes, layout.variable_columns,
            keys.fixed, keys.prefix, keys.offsets, keys.data_address,
            plan.first_slot, plan.last_slot, progress.state, progress.counts,
            address_of(self._gather), self._gather.size, self._row_at,
        )  # fmt: skip
        if outcome == page_kernels.DAMAGED:
            raise reader.damaged(int(plan.pages[progress.state[page_kernels.SLOT]]))
        return int(outcome)

    def _account(self, plan: _Plan, seconds: float) -> None:
        size_bytes = plan.pages.size * self._page_bytes
        if plan.is_scan:
            self._costs.scanned(size_bytes, seconds)
            self._metrics.scans += 1
        elif plan.pages.size:
            self._costs.picked(plan.pages.size, seconds)
            self._metrics.lookups += 1
        self._metrics.pages_read += plan.pages.size
        self._metrics.bytes_read += size_bytes
        self._metrics.read_ns += int(seconds * 1e9)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
