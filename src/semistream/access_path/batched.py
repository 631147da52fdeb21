"""The access path of SSIJ's join phase: the blocks that the stream buffer needs are found through the index and read in
physical order, one after the other; each meets all who wait for it.

Semi-Streaming Index Join, Bornea et al. 2011, as described in 003 section 2.3 and 000 section 2. They say that a disk
block is loaded, and joined with the stream buffer, once that is larger than a threshold. Decided here: the join phase
goes on until the stream buffer is empty; blocks beside each other are read in one request; it never reads more than
the blocks needed; and a row is looked up in its block by binary search, as one does with an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from semistream.access_path.planned import PlannedAccess, ReadCosts, _Plan
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import Matches, WaitingRoom
from semistream.core.metrics import JoinMetrics
from semistream.master_table.contract import Table, TableShard


class LookupsOnly(ReadCosts):
    """Picking pages is always cheaper than reading through, and never worth asking for pages ahead."""

    def __init__(self) -> None:
        super().__init__(page_seconds=0.0, byte_seconds=float("inf"))

    def picked(self, pages: int, seconds: float) -> None:
        """What is measured changes nothing."""

    def scanned(self, size_bytes: int, seconds: float) -> None:
        raise AssertionError("nothing is read through")


class BatchedIndexAccess(PlannedAccess):
    """`PlannedAccess` without the choice, one read at a time.

    Guarantee: a step reads every page that somebody waits for once, and no other, and empties the room. Cost per step:
    n(B) pages in as many requests as they make stretches, one probe per row that waits. Memory: a page to read into,
    reserved although a mapped file needs none, since the papers' joins pay for it.
    """

    def __init__(
        self,
        table: Table,
        shards: Mapping[int, TableShard],
        room: WaitingRoom,
        *,
        budget: MemoryBudget,
        metrics: JoinMetrics,
    ) -> None:
        super().__init__(table, shards, room, budget=budget, metrics=metrics, costs=LookupsOnly())
        own = max(shard.buffer_bytes for shard in self._readers.values())
        budget.reserve("disk buffer", max(0, table.page_bytes - own))

    @property
    def shards(self) -> Mapping[int, TableShard]:
        """For a page cache, which reads the same pages. They live until `close`."""
        return self._readers

    def step(self) -> Iterator[Matches]:
        for matches in super().step():
            self._metrics.probes += int(matches.sightings[matches.leaving].sum())
            yield matches

    def _account(self, reader: TableShard, plan: _Plan, seconds: float) -> None:
        before = self._metrics.random_reads_overlapped
        super()._account(reader, plan, seconds)
        self._metrics.random_reads += self._metrics.random_reads_overlapped - before
        self._metrics.random_reads_overlapped = before
