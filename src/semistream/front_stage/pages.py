"""A cache of whole pages of R, kept by a utility counter for each: the front stage of the papers' rivals.

    probe: key -> fences -> pages -> in memory? -> search
    admit: a point per stream row for every page its key is in
    adapt: pages just read replace cached ones that have fewer points

The page-level cache of SSIJ (Bornea et al. 2011) and of the partition-based join (Chakraborty and Singh 2009), as
described in 003 section 2.3 and 000 section 2. They say that a utility counter for each disk block determines which
blocks are kept, and no more. Decided here: a page's counter grows by one for each stream row that the page answers,
from memory or when it is read; all counters are halved together, so that the cache follows drift; a page that was
read takes the place of the cached page with the lowest counter if its own is higher.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from semistream.core.arrow import address_of
from semistream.core.budget import MemoryBudget, format_bytes
from semistream.core.contracts import I64, NULL_KEY, Answers, ChunkLimit, JoinKind, MasterRows, Matches, Pairs
from semistream.core.keys import KeyBatch
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.errors import BudgetError
from semistream.front_stage import _pages_kernels as kernels
from semistream.master_table import _page_kernels as page_kernels
from semistream.master_table.contract import TableShard

PAGE_OF_R_BYTES = 8  # its counter and its slot
SLOT_BYTES = 128  # beside the page: whose it is, and what choosing who leaves takes
BLOCK_ROWS = 1024  # are sorted together, since fences are searched in order
BLOCK_ROWS_MIN = 64
POINTS_PER_SLOT = 64  # are counted before all counters are halved
GROWTH_SHARE = 8  # a table that grew gets numbers for an eighth more pages than it has


def page_cache_bytes(pages_of_table: int, page_bytes: int, *, slots: int, shards: int = 1) -> int:
    """What a cache of so many pages takes."""
    return PAGE_OF_R_BYTES * (pages_of_table + shards) + slots * (page_bytes + SLOT_BYTES)


class PageCache:
    """Answers keys whose pages are all in memory; of a key whose rows span pages, every one of them has to be.

    Guarantee: answers come from pages whose checksums were verified. A key is absent if its pages prove it; a
    front stage is not told which shard a key belongs to, so with several shards all of them have to. Pages that
    hold a part of a key whose rows R brought in pieces (more than are found at a time) do not come in.

    A table may grow: from the next step on its new pages are counted, and come in like others. Their counters are paid for
    with slots where the cache is as large as it may be; while counters are moved, 4 bytes for each page are held twice.

    Cost: a sort of the keys asked for, a search in the fences of every shard and in one page; a page that comes in is
    fetched once more, from where it was read a moment ago, and copied. Memory: `size_bytes` at most, counters included.

    `shards` are those of the access path, which closes them, so that their fences are held once. `layout` reads the
    rows as they stand in pages: `PageColumns`, if the join does not want all columns.
    """

    def __init__(
        self,
        shards: Mapping[int, TableShard],
        *,
        budget: MemoryBudget,
        size_bytes: int,
        layout: RowLayout,
        fixed: bool,
    ) -> None:
        self.layout, self._fixed = layout, fixed
        self._shards = dict(sorted(shards.items()))
        self._page_bytes, self._size_bytes = next(iter(self._shards.values())).page_bytes, size_bytes
        self._pages = self._room = {number: shard.info.pages for number, shard in self._shards.items()}
        self._bases, numbers = _bases_of(self._room)
        self.slots = self._fitting(numbers)
        if self.slots < 1:
            raise self._too_small(numbers)
        self._reservation = budget.reserve("front stage", self._bytes(numbers, self.slots))
        self._slot_of = np.full(numbers, kernels.AWAY, np.int32)
        self._utility = np.zeros(numbers, np.int32)
        self._page_of = np.full(self.slots, -1, np.int64)
        self._heap = np.empty(self.slots, np.int64)
        self._memory = np.empty(self.slots * self._page_bytes, np.uint8)
        self._used = 0
        self._floor = -1  # no cached page has fewer points
        self._reach = self._nothing_marked()
        self._points = self._switched = 0

    @property
    def cached_pages(self) -> dict[int, set[int]]:
        """The pages in memory, by shard."""
        held = self._page_of[self._page_of >= 0]
        return {
            shard: set((held[(held >= base) & (held < base + self._pages[shard])] - base).tolist())
            for shard, base in self._bases.items()
        }

    def utility(self, shard: int, page: int) -> int:
        """The page's counter."""
        return int(self._utility[self._bases[shard] + page])

    # -- answers -----------------------------------------------------------------------------------------

    def probe(self, keys: KeyBatch, start: int, misses_max: int) -> Answers:
        parts: list[I64] = []
        present = absent = nulls = misses = 0
        at, size = start, min(BLOCK_ROWS, max(BLOCK_ROWS_MIN, 2 * misses_max))
        while at < len(keys) and misses < misses_max:
            entries, first_used, last_used = self._look_up(keys.slice(at, min(at + size, len(keys))))
            rows, *counts = kernels.settle(entries, first_used, last_used, misses_max - misses, self._utility)
            present, absent, nulls = present + counts[0], absent + counts[1], nulls + counts[2]
            misses += rows - sum(counts)
            self._points += counts[0] + counts[1]
            parts.append(entries[:rows])
            at, size = at + rows, BLOCK_ROWS
        self._age()
        found = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return Answers(entries=found, present=present, absent=absent, nulls=nulls, probes=found.size)

    def pairs(self, answers: Answers, kind: JoinKind, limit: ChunkLimit) -> Iterator[Pairs]:
        state = np.zeros(3, np.int64)
        while state[0] < answers.entries.size:
            index, rows = np.empty(limit.pairs, np.int64), np.empty(limit.pairs, np.int64)
            filled = kernels.pairs(
                answers.entries, *self._place, self._page_of, self._slot_of, self.layout.end_bytes, self._fixed,
                *self.layout.kernel_shape, kind.every_match, kind.once, kind.absent, limit.pair_bytes,
                limit.bytes, state, index, rows,
            )  # fmt: skip
            if filled:
                yield Pairs(stream_index=index[:filled], row_at=rows[:filled])

    # -- coming and going --------------------------------------------------------------------------------

    def admit(self, matches: Matches, rows: MasterRows) -> None:
        """Counts who needed which page, and marks pages that were read."""
        numbers = matches.waiting.shards[matches.first_key : matches.stop_key]
        bounds = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
        keys, sightings = matches.keys, matches.sightings
        for first, stop in pairwise(bounds):
            number = int(numbers[first])
            if number not in self._shards:
                continue
            first_page, last_page = self._shards[number].fences.locate(keys.slice(first, stop))
            kernels.note(
                first_page, last_page, self._bases[number], self._pages[number], sightings[first:stop],
                matches.counts[first:stop], matches.whole[first:stop], self._slot_of, self._utility, self._reach,
            )  # fmt: skip
            self._points += int(sightings[first:stop].sum())

    def adapt(self, cycles: int) -> None:
        low, high = self._reach.tolist()
        if low <= high:
            self._reach = self._nothing_marked()
            floor = self._floor if self._used == self.slots else -1
            count = kernels.most_useful(low, high, floor, self._slot_of, self._utility, self._heap)
            if count:
                self._exchange(self._heap[:count])
        self._follow_growth()
        self._age()

    def report(self, metrics: JoinMetrics) -> None:
        held = np.flatnonzero(self._page_of >= 0)
        short = self.layout.end_bytes
        keys, rows = kernels.census(held, *self._place, short, self._fixed)
        metrics.front_stage_keys, metrics.front_stage_rows = int(keys), int(rows)
        metrics.front_stage_bytes = self._reservation.size_bytes
        metrics.switched = self._switched

    def check_invariants(self) -> None:
        held = np.flatnonzero(self._page_of >= 0)
        assert held.size == self._used
        assert (self._slot_of[self._page_of[held]] == held).all()
        assert (self._slot_of >= 0).sum() == held.size
        assert (self._utility >= 0).all()
        assert (self._utility[self._page_of[held]] >= self._floor).all()
        for number, base in self._bases.items():
            mine = held[(self._page_of[held] >= base) & (self._page_of[held] < base + self._pages[number])]
            assert self._first_damaged(number, self._page_of[mine] - base, mine) < 0

    def close(self) -> None:
        """The addresses must not be used any more."""
        self._memory = np.zeros(0, np.uint8)
        self._page_of[:] = -1
        self._slot_of[:] = kernels.AWAY
        self._used, self._floor = 0, -1

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _place(self) -> tuple[int, int]:
        return address_of(self._memory), self._page_bytes

    def _bytes(self, numbers: int, slots: int) -> int:
        return PAGE_OF_R_BYTES * numbers + slots * (self._page_bytes + SLOT_BYTES)

    def _fitting(self, numbers: int) -> int:
        """Slots beside the counters of so many pages; below 1 if there is no room for any."""
        return min((self._size_bytes - self._bytes(numbers, 0)) // self._bytes(0, 1), numbers)

    def _too_small(self, numbers: int) -> BudgetError:
        return BudgetError(
            f"a cache of {format_bytes(self._size_bytes)} holds no page of this table; one takes "
            f"{format_bytes(self._bytes(numbers, 1))}, with the counters of all {numbers:,} pages.",
            hint="give the join more memory.",
        )

    @staticmethod
    def _nothing_marked() -> I64:
        return np.array([1 << 62, -1], np.int64)

    def _age(self) -> None:
        if self._points > POINTS_PER_SLOT * self.slots:
            kernels.halve(self._utility)
            self._points, self._floor = 0, self._floor >> 1

    def _look_up(self, block: KeyBatch) -> tuple[I64, I64, I64]:
        """What is known of the keys, and the range of pages that each answer comes from."""
        size = len(block)
        entries = np.full(size, NULL_KEY, np.int64)
        first_used, last_used = np.zeros(size, np.int64), np.full(size, -1, np.int64)
        valid = np.flatnonzero(block.valid)
        if valid.size:
            order = block.sort_order()
            order = order if valid.size == size else order[block.valid[order]]
            keys = block.take(order)
            found = np.full(order.size, kernels.ABSENT, np.int64)
            first, last = np.zeros(order.size, np.int64), np.full(order.size, -1, np.int64)
            for number, shard in self._shards.items():
                first_page, last_page = shard.fences.locate(keys)
                kernels.look_up(
                    first_page, last_page, self._bases[number], self._pages[number], self._slot_of, *self._place,
                    self.layout.end_bytes, keys.fixed, keys.prefix, keys.offsets, keys.data_address,
                    found, first, last,
                )  # fmt: skip
            entries[order], first_used[order], last_used[order] = found, first, last
        return entries, first_used, last_used

    def _follow_growth(self) -> None:
        """Pages that R has got are counted from now on. Without room for their counters they are read, as before."""
        sizes = {number: shard.info.pages for number, shard in self._shards.items()}
        if any(size > self._room[number] for number, size in sizes.items()):
            room = {
                number: self._room[number] if size <= self._room[number] else size + size // GROWTH_SHARE
                for number, size in sizes.items()
            }
            bases, numbers = _bases_of(room)
            slots = self._fitting(numbers)
            if slots < 1:
                return
            if slots < self.slots:
                self._give_up(self.slots - slots)
            self._reservation.resize(self._bytes(numbers, slots))
            self._renumber(bases, numbers)
            self._set_slots(slots)
            self._room = room
        self._pages = sizes

    def _give_up(self, count: int) -> None:
        """The last slots are emptied: the least useful pages leave, and those that stay move into their places."""
        left = self.slots - count
        leaving = self._least_useful(count)
        gone = self._page_of[leaving]
        self._slot_of[gone[gone >= 0]] = kernels.AWAY
        self._page_of[leaving] = -1
        moving = left + np.flatnonzero(self._page_of[left:] >= 0)
        places = leaving[leaving < left][: moving.size]
        memory, page_bytes = self._place
        kernels.copy_pages(memory + moving * page_bytes, places, memory, page_bytes)
        pages = self._page_of[moving]
        self._page_of[places], self._slot_of[pages] = pages, places
        self._set_slots(left)

    def _set_slots(self, slots: int) -> None:
        held = self._page_of[:slots]
        self._page_of = np.full(slots, -1, np.int64)
        self._page_of[: held.size] = held
        self._heap = np.empty(slots, np.int64)
        self._memory.resize(slots * self._page_bytes, refcheck=False)  # in place, if it shrinks
        self.slots, self._used = slots, int((self._page_of >= 0).sum())
        self._floor = self._lowest

    def _renumber(self, bases: dict[int, int], numbers: int) -> None:
        """Pages get other numbers, and there is room for more of them."""
        held = np.flatnonzero(self._page_of >= 0)
        moved = self._page_of[held]
        slot_of = np.full(numbers, kernels.AWAY, np.int32)
        for number, base in self._bases.items():
            mine = (self._page_of[held] >= base) & (self._page_of[held] < base + self._pages[number])
            moved[mine] += bases[number] - base
        self._page_of[held] = moved
        slot_of[moved] = held
        self._slot_of = slot_of
        utility = np.zeros(numbers, np.int32)
        for number, base in self._bases.items():
            size = self._pages[number]
            utility[bases[number] : bases[number] + size] = self._utility[base : base + size]
        self._utility, self._bases = utility, bases

    @property
    def _lowest(self) -> int:
        """No cached page has fewer points; a page comes in for free while there are empty slots."""
        return int(self._utility[self._page_of].min()) if self._used == self.slots else -1

    def _exchange(self, pages: I64) -> None:
        """Lets pages in that have more points than those that leave for them."""
        pages = pages[np.argsort(-self._utility[pages], kind="stable")]
        slots = self._least_useful(pages.size)
        pages = pages[: slots.size]
        leaving = self._page_of[slots]
        points = np.where(leaving >= 0, self._utility[leaving], -1)
        worth = int((self._utility[pages] > points).sum())  # one side falls, the other rises
        pages, slots, leaving = pages[:worth], slots[:worth], leaving[:worth]
        self._slot_of[leaving[leaving >= 0]] = kernels.AWAY
        self._page_of[slots] = -1
        self._used -= int((leaving >= 0).sum())
        order = np.argsort(pages)
        self._load(pages[order], slots[order])
        self._floor = self._lowest

    def _least_useful(self, count: int) -> I64:
        """Slots to give away, the best one to lose first."""
        points = np.where(self._page_of >= 0, self._utility[self._page_of], -1)
        if count < self.slots:
            chosen = np.argpartition(points, count)[:count]
            return chosen[np.argsort(points[chosen], kind="stable")].astype(np.int64, copy=False)
        return np.argsort(points, kind="stable").astype(np.int64, copy=False)

    def _load(self, pages: I64, slots: I64) -> None:
        """Copies pages, given in order, and verifies the copies."""
        for number, base in self._bases.items():
            first, stop = np.searchsorted(pages, [base, base + self._pages[number]]).tolist()
            shard = self._shards[number]
            for at in range(first, stop, shard.pages_at_once):
                mine = slice(at, min(stop, at + shard.pages_at_once))
                self._switched += int(
                    kernels.copy_pages(shard.fetch(pages[mine] - base), slots[mine], *self._place)
                )
                bad = self._first_damaged(number, pages[mine] - base, slots[mine])
                if bad >= 0:
                    raise shard.damaged(int(pages[at + bad] - base))
                self._slot_of[pages[mine]] = slots[mine]
                self._page_of[slots[mine]] = pages[mine]
                self._used += pages[mine].size
            if first < stop:
                shard.let_go()  # one buffer is reserved for all shards

    def _first_damaged(self, number: int, pages: I64, slots: npt.NDArray[np.int64]) -> int:
        memory, page_bytes = self._place
        seed = self._shards[number].seed
        return int(page_kernels.first_damaged(memory + slots * page_bytes, pages, page_bytes, seed))


def _bases_of(room: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """The number of each shard's first page, and how many there are; one between two shards is no page's."""
    bases = np.cumsum([0, *(size + 1 for size in room.values())], dtype=np.int64).tolist()
    return dict(zip(room, bases, strict=False)), int(bases[-1])
