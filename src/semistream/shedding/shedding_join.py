"""Load shedding: when rows arrive faster than they can be joined, some go to disk and are joined later.

    arrivals --> stream buffer SB1 --> loop (front stage, waiting room, reads of R)
                     ^     | keep: those who have not been let in      | considering: those who wait longest
                     |     v                                           v
                     +--- disk <---------------------------------------+

"Considering" sheds from the end of the queue, where the oldest are: whoever is there was not served by any of the pages
that were read meanwhile, so its page is one that few others wait for (000 Lemma 1), and it is dearer than a row that
has just arrived (Theorem 1).

000 section 4, Algorithm 2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa

from semistream.core.loop import Incoming, SemiStreamJoin
from semistream.core.ordered import OrderedJoin
from semistream.errors import ConfigError
from semistream.shedding.spill import Spill
from semistream.waiting_room.queue_room import QueueRoom

Strategy = Literal["considering", "keep"]
STRATEGIES: tuple[Strategy, ...] = ("considering", "keep")
OVERLOAD = 2  # times the rows of the last iteration in the stream buffer: it is filling up


class SheddingJoin:
    """Runs a join by iterations, with a stream buffer before it and a disk beside it.

    Guarantee: every row that was offered is joined once, however often it was shed; `metrics.rows_shed` rows are on
    disk at the time. When the disk is full, nobody is shed: the stream buffer grows, and `backlog_rows` tells.

    Memory: the join's own budget; the stream buffer is the caller's, who decides what to offer.

    000 Algorithm 1 (the outer loop) and 2.
    """

    def __init__(
        self, join: SemiStreamJoin | OrderedJoin, room: QueueRoom, spill: Spill, *, strategy: Strategy
    ) -> None:
        if isinstance(join, OrderedJoin):
            raise ConfigError(
                "a join with ordered=True cannot shed: what is shed is joined late, and all after it would wait for it.",
                hint="start the join without ordered=, or let the stream wait.",
            )
        if strategy not in STRATEGIES:
            raise ConfigError(
                f"strategy={strategy!r} is not known.", hint=f"choose one of: {', '.join(STRATEGIES)}."
            )
        self._join, self._room, self._spill, self._strategy = join, room, spill, strategy
        self._buffer: deque[Incoming] = deque()
        self._served_rows = 0  # w of the last iteration
        self.shed_rows_total = 0
        self.refused_rows_total = 0  # wanted to be shed, but the disk was full

    @property
    def backlog_rows(self) -> int:
        """The size of SB1."""
        return sum(incoming.left for incoming in self._buffer)

    @property
    def pending_rows(self) -> int:
        """Everyone who was offered and has not been joined yet."""
        return self.backlog_rows + self._room.count + self._spill.rows

    def offer(self, batch: pa.RecordBatch) -> None:
        """Rows arrive."""
        if batch.num_rows:
            self._buffer.append(self._join.receive(batch))

    def iterate(self) -> Iterator[pa.RecordBatch]:
        """One iteration: shedding, the front stage's phase, one read of R."""
        self._balance()
        yield from self._turn()

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Until everyone is joined, those on disk included: nobody arrives any more, so nobody is shed."""
        while self.pending_rows:
            if not self._buffer:
                self._load_back(OVERLOAD * max(1, self._served_rows))
            yield from self._turn()

    # -- inside ------------------------------------------------------------------------------------------

    def _turn(self) -> Iterator[pa.RecordBatch]:
        """The front stage's phase, and one read of R."""
        left_before = self._gone
        while self._buffer:
            yield from self._join.let_in(self._buffer[0])
            if self._buffer[0].left:
                break
            self._buffer.popleft()
        if self._room.count:
            yield from self._join.step()
        self._served_rows = self._gone - left_before
        yield from self._join.settle()

    @property
    def _gone(self) -> int:
        metrics = self._join.metrics
        return metrics.rows_matched + metrics.rows_unmatched

    def _balance(self) -> None:
        """Rows that the waiting room has space for are not too many: without them, a turn that happened to serve few rows
        would leave the next one with few, and the room would run empty under overload."""
        space = self._room.space(self._buffer[0].arrivals.row_bytes) if self._buffer else 0
        too_many = self.backlog_rows - space - OVERLOAD * max(1, self._served_rows)
        if self._served_rows and too_many > 0:
            if self._strategy == "keep":
                self._shed_arrivals(too_many)
            else:
                self._shed_waiting(too_many)
        elif self._spill.rows and too_many <= 0:
            self._load_back(OVERLOAD * max(1, self._served_rows))

    def _shed_waiting(self, rows: int) -> None:
        """Line 2: from the end of Q, with their tuples in H_S."""
        fitting = self._spill.rows_fitting(self._buffer[0].arrivals.row_bytes)
        self.refused_rows_total += max(0, rows - fitting)
        taken = self._room.take_oldest(min(rows, fitting)) if fitting > 0 else None
        if taken is None:
            return
        waiting, met = taken
        batch = waiting.rows.take(waiting.order)
        count = batch.num_rows
        if met.any():
            raise ConfigError(
                "shedding after considering met a row that has been joined in part.",
                hint="it needs an algorithm that looks keys up, such as hybridjoin; use 'keep' with the others.",
            )
        metrics = self._join.metrics
        metrics.rows_waiting -= count
        metrics.removals += count
        if self._spill.fits(batch):
            self._spill.put(batch)
            metrics.rows_shed += count
            self.shed_rows_total += count
        else:  # larger than they were taken for
            self.refused_rows_total += count
            self._uncount(count)
            self._buffer.appendleft(self._join.receive(batch))

    def _shed_arrivals(self, rows: int) -> None:
        """The older baseline: before they are processed in any way."""
        while rows > 0 and self._buffer:
            last = self._buffer[-1]
            count = min(rows, last.left, self._spill.rows_fitting(last.arrivals.row_bytes))
            batch = last.arrivals.batch
            shed = batch.slice(batch.num_rows - count, count)
            if count <= 0 or not self._spill.fits(shed):
                self.refused_rows_total += rows
                return
            self._spill.put(shed)
            self._join.metrics.rows_in += count
            self._join.metrics.misses += count
            self._join.metrics.rows_shed += count
            self.shed_rows_total += count
            self._buffer.pop()
            if last.left > count:
                rest = batch.slice(last.at, last.left - count)
                self._buffer.append(self._join.receive(rest))
            rows -= count

    def _load_back(self, rows: int) -> None:
        """Line 4: they are let in like those who arrive now."""
        for batch in self._spill.take(rows):
            self._join.metrics.rows_shed -= batch.num_rows
            self._uncount(batch.num_rows)
            self.offer(batch)

    def _uncount(self, rows: int) -> None:
        """They will be counted when they come in again."""
        self._join.metrics.rows_in -= rows
        self._join.metrics.misses -= rows
