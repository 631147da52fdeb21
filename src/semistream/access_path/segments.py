"""Pages of R in the disk buffer, and all their rows shown to those who wait in a `QueueRoom`: what the papers' joins
have in common, however they choose what to read next."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from semistream.core.budget import MemoryBudget
from semistream.core.keys import all_true
from semistream.core.metrics import JoinMetrics
from semistream.master_table import _page_kernels as page_kernels
from semistream.master_table.contract import Table, TableShard, misplaced
from semistream.waiting_room.queue_room import Found, QueueRoom

ROW_BYTES_MIN = 8  # a row in a page takes more, whatever its columns
ROWS_AT_ONCE = 1 << 14
ADDRESS_BYTES = 24  # of a row found, its key and its key's count

Bools = npt.NDArray[np.bool_]


def row_addresses(page_bytes: int, total_bytes: int) -> int:
    """How many rows are found at a time; at least those of a page, and few for a small budget."""
    return max(page_bytes // ROW_BYTES_MIN, min(ROWS_AT_ONCE, total_bytes // 2048))


def all_but(size: int, parted: list[int]) -> Bools:
    """Which of so many keys are not among the parted ones."""
    if not parted:
        return all_true(size)
    whole = np.ones(size, np.bool_)
    whole[parted] = False
    return whole


class DiskBuffer:
    """Reads stretches of neighbouring pages, verifies each page, and finds who waits for their rows.

    Memory: the disk buffer of `buffer_pages` pages, reserved although a mapped file needs none, since the papers'
    joins pay for it; the shard's own buffer where the file cannot be mapped; fences; row addresses.
    """

    def __init__(
        self,
        table: Table,
        shards: list[int],
        room: QueueRoom,
        *,
        buffer_pages: int,
        budget: MemoryBudget,
        metrics: JoinMetrics,
    ) -> None:
        self._page_bytes, self._layout, self._metrics = table.page_bytes, table.layout, metrics
        self.room = room
        budget.reserve("fences", table.fence_bytes(shards))
        rows = row_addresses(table.page_bytes, budget.total_bytes)
        budget.reserve("row addresses", ADDRESS_BYTES * rows)
        self._row_at, self._keys, self._counts = (np.empty(rows, np.int64) for _ in range(3))
        self.shards = {shard: table.open_shard(shard) for shard in shards}
        own = max(shard.buffer_bytes for shard in self.shards.values())
        budget.reserve("disk buffer", max(own, buffer_pages * table.page_bytes))
        self._ended_at: tuple[TableShard, int] | None = None

    def shard(self, number: int) -> TableShard:
        if number not in self.shards:
            raise misplaced(number, self.shards)
        return self.shards[number]

    def check_shards(self, numbers: npt.NDArray[np.int32]) -> None:
        """Who has met nothing in these shards may just have been sent to the wrong task."""
        for number in np.unique(numbers).tolist():
            self.shard(number)

    def read(self, shard: TableShard, first: int, stop: int) -> Iterator[tuple[Found, list[int]]]:
        """Who waits for the rows of the pages first..stop-1, a window at a time, and which of these keys are parted: R
        may have more rows of them outside of the window. One request; random, unless it goes on where the last one
        ended. What is told of a window is good until the next one."""
        metrics = self._metrics
        metrics.read_requests += 1
        if self._ended_at and self._ended_at[0] is not shard:
            self._ended_at[0].let_go()  # one buffer is reserved for all shards
        if self._ended_at != (shard, first):
            metrics.random_reads += 1
        self._ended_at = (shard, stop)
        metrics.pages_read += stop - first
        metrics.bytes_read += (stop - first) * self._page_bytes
        seed, end_bytes = shard.seed, self._layout.end_bytes
        at = first
        while at < stop:
            started = time.perf_counter_ns()
            pages = np.arange(at, min(stop, at + shard.pages_at_once), dtype=np.int64)
            page_at = shard.fetch(pages)
            bad = page_kernels.first_damaged(page_at, pages, self._page_bytes, seed)
            if bad >= 0:
                raise shard.damaged(at + int(bad))
            done = 0
            while done < pages.size:
                found = self.room.find(
                    page_at[done:] if done else page_at,
                    self._page_bytes,
                    end_bytes,
                    keys=self._keys,
                    counts=self._counts,
                    row_at=self._row_at,
                )
                metrics.probes += found.rows_seen
                metrics.read_ns += time.perf_counter_ns() - started
                window = at + done
                yield found, self._parted(shard, found, window, window + found.pages)
                started = time.perf_counter_ns()
                done += found.pages
            at += pages.size

    def _parted(self, shard: TableShard, found: Found, first: int, stop: int) -> list[int]:
        """Keys lie side by side, so only the first and the last one of a window may have rows outside of it."""
        ends = [0] * found.at_begin + [found.keys.size - 1] * found.at_end
        if not ends:
            return ends
        first_page, last_page = shard.fences.locate(self.room.key_batch(found.keys[ends]))
        outside = (first_page < first) | (last_page >= stop)
        return [
            end for end, is_outside in zip(dict.fromkeys(ends), outside.tolist(), strict=False) if is_outside
        ]

    def close(self) -> None:
        for shard in self.shards.values():
            shard.close()
