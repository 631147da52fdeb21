"""The front stage of SSBJ: every key is where it takes less memory.

A key takes m_j * v_R bytes in the cache, and n_j * v_S while its stream rows wait; it is cached if and only if

    m_j * v_R < n_j * v_S          (the cache inequality, 003 Theorem 2)

with the true sizes of its entry (the key, all its rows, all that leads to them) and of a waiting row. A key that R
lacks has no rows, and is cached as an empty entry as soon as the rows that wait for it take more than that.

      R-cycle rc        rc mod 3 = 1            rc mod 3 = 2                 rc mod 3 = 0
                    +--------------+      +-----------------+      +------------------------+
          +-------> | incrementing | ---> |    switching    | ---> |       phase-out        | ---+
          |         | s_count      |      | inequality holds|      | at its start sB -> H_R |    |
          |         |              |      | -> sB           |      | s_count := 0           |    |
          |         +--------------+      +-----------------+      +------------------------+    |
          +--------------------------------------------------------------------------------------+
      after every 10th cycle: m_cache >= sf * m_disk, with m_disk = f_count / 10 * v_S -> out of H_R

| 003 Alg. 1 | here |
|---|---|
| 4-8 | `adapt`: rc = cycles + 1, the number of the cycle that is being read |
| 9-13 | `_new_cycle`; "adapt w" is the waiting room's, which may use what is left of the budget |
| 16-19 | `probe`; f_count is the record's word |
| 28-29 | `_count`: s_count, for keys whose rows `Matches.whole` says are all of R's |
| 30-36 | kernel `take`; s_count must be the number of rows that came, else it was not counted over a whole cycle |
| sect. 3.1, last paragraph | a key that R lacks is seen when its rows leave, some at a time: as many as left in the incrementing cycle are its n_j |
| 10 | kernel `move_in` |
| 42-51 | kernel `evict_dear` |

Ours, where following the letter would fail: line 42 is done once per tenth cycle, as the text has it, since f_count is 0
at the second time; and a key that came in since the last eviction is judged at the next one, since its f_count
does not cover ten cycles.

H_S of the papers has an s_count for each key that waits, however rare. Here counts have a fixed share of the memory.
Kept for all, they would be full of the keys that R happens to show first, and hot keys behind these would not come in.
So the second half of them is for keys for which the inequality holds already when R shows them in the incrementing
cycle, and the fuller the first half, the nearer a key has to be to it. With the same n_j in both cycles, as in the
theorems, no key is left out. Keys that R lacks are counted apart, since there is no telling yet which of them may win.

An access path that looks keys up does not cycle: whole keys never stay. There n_j is the number of rows that wait
for the key at that moment, it is cached at once, and the time in which as many rows miss as wait at a time is what a
cycle was. (Where nobody waits, as before INLJ, no key takes less memory in the cache, and hardly one stays there.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, MISS, Answers, MasterRows, Matches
from semistream.core.keys import KeyBatch
from semistream.core.rows import RowLayout
from semistream.front_stage import _balanced_kernels as kernels
from semistream.front_stage._table_kernels import RECORD_BYTES
from semistream.front_stage.entry_table import (
    BUCKETS_MIN,
    ENTRY_SHARE_MAX,
    SIZE_MAX_BYTES,
    EntryTable,
)
from semistream.front_stage.key_counts import SIZE_MIN_BYTES as COUNTS_BYTES_MIN
from semistream.front_stage.key_counts import KeyCounts
from semistream.front_stage.table_stage import Offers, TableFrontStage

EVICTION_CYCLES = 10
EVICTION_ROWS_MIN = 1000  # that missed in between, where R is not read in cycles
COUNTS_SHARE = 1 / 48  # of the most it may take, for s_count
LEFT_SHARE = 1 / 96  # likewise, for n_j of keys that R lacks: they must not crowd the others out
GROWTH_SHARE = 1 / 32  # it grows, and shrinks, by at least this part of itself
WAITING_DECAY = 15 / 16
JUDGED = -(1 << 40)  # makes a count that no key can have

State = Literal["incrementing", "switching", "phase-out"]
_STATES: tuple[State, State, State] = ("phase-out", "incrementing", "switching")


@dataclass(frozen=True, kw_only=True)
class BalancedSettings:
    """`waiting_rows`: how many rows wait at a time on a path that does not cycle; None: counted from those that missed
    and those that left, which is too many where rows ask again before they wait."""

    switching_factor: float = 1.0
    waiting_rows: int | None = None


class BalancedFrontStage(TableFrontStage):
    """Caches the keys for which the cache inequality holds.

    Memory: its reservation, which grows as keys are switched in, up to `bytes_max` or what the budget has left, and
    shrinks when they are evicted; so the rest is the waiting room's. A key for which there is no room stays out.
    Cost: one pass over the cached keys in ten cycles.

    `waiting_row_bytes` is v_S: what one waiting row really takes.

    003 section 3, Algorithm 1, Theorems 1-3.
    """

    def __init__(
        self,
        budget: MemoryBudget,
        *,
        bytes_max: int,
        layout: RowLayout,
        fixed: bool,
        row_bytes: float,
        waiting_row_bytes: float,
        decode_bytes: int,
        settings: BalancedSettings | None = None,
    ) -> None:
        self._settings = settings or BalancedSettings()
        self._waiting_row_bytes = waiting_row_bytes
        self._budget, self._bytes_max = budget, min(bytes_max, SIZE_MAX_BYTES)
        self._counts, self._left = (
            KeyCounts(max(COUNTS_BYTES_MIN, int(self._bytes_max * share)), renew=False)
            for share in (COUNTS_SHARE, LEFT_SHARE)
        )
        self._counts_bytes = self._counts.size_bytes + self._left.size_bytes
        table = EntryTable(
            self._bytes_max - self._counts_bytes,
            layout=layout,
            fixed=fixed,
            row_bytes=row_bytes,
            lists=kernels.LISTS,
            buckets=BUCKETS_MIN,
        )
        super().__init__(table, decode_bytes=decode_bytes)
        self._reservation = budget.reserve("front stage", self._counts_bytes + table.fixed_bytes)
        table.allow(table.fixed_bytes)
        self._cycles = self._missed = self._waiting = 0
        self._waiting_max = 0.0  # of late
        self._is_scan = False

    @property
    def state(self) -> State:
        """What the cycle being read is for: lines 5-7."""
        return _STATES[(self._cycles + 1) % 3]

    def admit(self, matches: Matches, rows: MasterRows) -> None:
        self._waiting_max = max(WAITING_DECAY * self._waiting_max, float(self._waiting))
        self._waiting = max(0, self._waiting - int(matches.sightings[matches.leaving].sum()))
        self._is_scan = self._is_scan or bool((matches.whole & ~matches.leaving).any())
        super().admit(matches, rows)

    def adapt(self, cycles: int) -> None:
        for cycle in range(max(self._cycles + 1, cycles - 3 * EVICTION_CYCLES), cycles + 1):
            self._cycles, self._is_scan = cycle, True
            self._new_cycle()
        if not self._is_scan:
            rows_per_exchange = self._settings.waiting_rows or max(1.0, self._waiting_max)
            if self._missed >= max(EVICTION_CYCLES * rows_per_exchange, EVICTION_ROWS_MIN):
                self._evict(self._missed / rows_per_exchange)

    def check_invariants(self) -> None:
        self._table.check_invariants(hidden=kernels.SWITCHING)
        assert self._counts_bytes + self._table.held_bytes <= self._reservation.size_bytes
        assert self._reservation.size_bytes <= self._bytes_max

    def close(self) -> None:
        super().close()
        self._reservation.resize(0)

    # -- policy ------------------------------------------------------------------------------------------

    def _touch(self, answers: Answers, keys: KeyBatch, start: int) -> None:
        kernels.count_hits(self._table.place, answers.entries)
        self._missed += answers.misses
        self._waiting += answers.misses

    def _new_cycle(self) -> None:
        if self.state == "phase-out":
            kernels.move_in(self._table.place, self._table.fixed)
            self._counts.clear()
            self._left.clear()
            self._widen()
        if self._cycles % EVICTION_CYCLES == 0:
            self._evict(float(EVICTION_CYCLES))

    def _evict(self, cycles: float) -> None:
        """Hits were counted for so many cycles."""
        factor = self._settings.switching_factor
        kernels.evict_dear(self._table.place, cycles, self._waiting_row_bytes, factor)
        self._missed = 0
        self._shrink()

    def _admit(self, offers: Offers, known: I64, rows: MasterRows) -> None:
        new = offers.chosen(known == MISS)
        if not self._is_scan:
            self._switch(new, rows, kernels.ENTERED)
            self._widen()
        elif self.state == "incrementing":
            lacks = new.counts == 0
            absent = new.chosen(lacks)
            self._left.add(absent.keys, absent.sightings)
            self._count(new.chosen(~lacks), rows)
        elif self.state == "switching":
            lacks = new.counts == 0
            left = self._left.look_up(new.keys)
            judged = np.where(lacks, left > 0, self._counts.look_up(new.keys) == new.counts)
            due = replace(new, sightings=np.where(lacks, left, new.sightings)).chosen(judged)
            for counts, are_here in ((self._left, due.counts == 0), (self._counts, due.counts > 0)):
                keys = due.chosen(are_here).keys
                counts.add(keys, np.full(len(keys), JUDGED, np.int64))
            self._switch(due, rows, kernels.SWITCHING)

    def _count(self, offers: Offers, rows: MasterRows) -> None:
        """The fuller the counts, the nearer to the inequality a key has to be, up to half of them; the rest is for those
        for which it holds."""
        half = self._counts.keys_max / 2
        hopeful = self._hopeful(offers, min(1.0, self._counts.keys / half))
        for part in self._decoded(offers.chosen(hopeful), rows):
            m_cache = part.entry_bytes + RECORD_BYTES + kernels.BUCKET_BYTES
            m_disk = part.offers.sightings * self._waiting_row_bytes
            share = m_disk / (self._settings.switching_factor * m_cache)
            order = np.argsort(-share, kind="stable")
            bars = np.minimum(1.0, (self._counts.keys + np.arange(order.size)) / half)
            due = np.zeros(order.size, np.bool_)
            due[order] = share[order] > bars
            counted = part.offers.chosen(due)
            self._counts.add(counted.keys, counted.counts)

    def _switch(self, offers: Offers, rows: MasterRows, which: int) -> None:
        hopeful = self._hopeful(offers)
        if hopeful.any():
            self._target = which
            self._take_in(offers.chosen(hopeful), rows)

    def _hopeful(self, offers: Offers, bar: float = 1.0) -> npt.NDArray[np.bool_]:
        """May the inequality hold, or be so near? Known before the rows are decoded."""
        bodies = offers.counts * self.layout.bytes_min
        least = self._table.entry_bytes(offers.keys, bodies) + RECORD_BYTES + kernels.BUCKET_BYTES
        return np.asarray(
            offers.sightings * self._waiting_row_bytes > bar * self._settings.switching_factor * least,
            np.bool_,
        )

    def _take(self, keys: KeyBatch, sightings: I64, sizes: I64, newcomers: I64) -> None:
        self._grow(int((sizes + RECORD_BYTES).sum()))
        kernels.take(
            self._table.place, newcomers, keys.hashes, sightings, sizes, self._waiting_row_bytes,
            self._settings.switching_factor, int(self._bytes_max * ENTRY_SHARE_MAX), self._target,
        )  # fmt: skip

    # -- its reservation ---------------------------------------------------------------------------------

    def _resize(self, table_bytes: int) -> None:
        self._reservation.resize(self._counts_bytes + table_bytes)
        self._table.allow(table_bytes)

    def _grow(self, more: int) -> None:
        """Takes what it needs for so many bytes more, as far as there is something left."""
        held = self._reservation.size_bytes - self._counts_bytes
        wanted = self._table.bytes_for(more)
        if wanted > held:
            most = min(self._bytes_max - self._counts_bytes, held + self._budget.left_bytes)
            self._resize(max(held, min(most, wanted + int(wanted * GROWTH_SHARE))))

    def _widen(self) -> None:
        while self._table.is_crowded:
            self._grow(2 * self._table.fixed_bytes)
            if not self._table.grow_buckets(hidden=kernels.SWITCHING):
                return

    def _shrink(self) -> None:
        held, needed = self._reservation.size_bytes - self._counts_bytes, self._table.bytes_for(0)
        if needed < held * (1 - 2 * GROWTH_SHARE):
            self._table.compact()
            self._resize(max(needed, self._table.fixed_bytes))
            self._table.return_memory()
