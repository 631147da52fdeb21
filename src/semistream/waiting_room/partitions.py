"""R in partitions: stretches of neighbouring pages, which rows wait for together.

shard 0: | 0 | 1 | 2 |  shard 1: | 3 | 4 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semistream.core.contracts import I64
from semistream.core.keys import KeyBatch
from semistream.master_table.contract import TableShard


@dataclass(frozen=True, kw_only=True)
class Partition:
    """The pages first..stop-1 of a shard; an empty shard is a partition without a page."""

    shard: int
    first: int
    stop: int


class Partitions:
    """A range partition of R: since rows are sorted by key within a shard, `pages` neighbouring pages hold a range of
    keys. All shards' partitions are numbered from 0 on; pages that R got since belong to a shard's last one.

    Chakraborty and Singh 2009, as described in 003 section 2.3.
    """

    def __init__(self, shards: Mapping[int, TableShard], pages: int) -> None:
        self._shards, self._pages = dict(sorted(shards.items())), pages
        counts = [max(1, -(-shard.info.pages // pages)) for shard in self._shards.values()]
        self._first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self._place = {number: place for place, number in enumerate(self._shards)}

    @property
    def count(self) -> int:
        return int(self._first[-1])

    def of(self, keys: KeyBatch, shards: npt.NDArray[np.int32]) -> I64:
        """The partition that holds the first row of each key, and would hold an absent one. Keys of other shards
        go to partition 0, where they are found out."""
        found, order = np.zeros(len(keys), np.int64), keys.sort_order()
        for number in np.unique(shards).tolist():
            if number in self._shards:
                mine = order[shards[order] == number]
                first_page, _ = self._shards[number].fences.locate(keys.take(mine))
                first, stop = self._first[self._place[number]], self._first[self._place[number] + 1]
                found[mine] = np.minimum(first + first_page // self._pages, stop - 1)
        return found

    def __getitem__(self, partition: int) -> Partition:
        place = int(np.searchsorted(self._first, partition, side="right")) - 1
        number = list(self._shards)[place]
        pages, first = self._shards[number].info.pages, int(partition - self._first[place]) * self._pages
        is_last = partition == self._first[place + 1] - 1
        return Partition(shard=number, first=first, stop=pages if is_last else first + self._pages)
