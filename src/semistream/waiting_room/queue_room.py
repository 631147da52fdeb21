"""H_S and Q of the papers: who waits is found by key, and known in the order of arrival; anyone can leave any time.

put -> | newest ... Q ... oldest | -> take_oldest
           H_S: key -> its rows    -> waiting
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import address_of
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, PAIR_BYTES, Arrivals, Waiting
from semistream.core.keys import KeyBatch, offsets_from
from semistream.errors import BudgetError
from semistream.waiting_room import _queue_kernels as kernels
from semistream.waiting_room import _queue_tables as tables
from semistream.waiting_room._queue_match_kernels import match_pages
from semistream.waiting_room.kept_rows import KeptRows

GARBAGE_SHARE = 1 / 4  # of the kept rows may be of rows that left
COPY_SHARE = 1 / 2  # what putting rows together takes beside them
SLOTS_PER_KEY = 1.5
CHARGE_FACTOR = (1 + GARBAGE_SHARE) * (1 + COPY_SHARE)
# Per row, and for its key if no other row has it: links, place and stamp; word, list and slots; its place in a list
# of those who are served.
ENTRY_BYTES = 4 * tables.LINKS + 16 + 8 + 4 * tables.METAS + int(8 * SLOTS_PER_KEY) + 8
SPAN_BYTES = 8 * tables.SPANS
SIZE_BYTES = 4
RESIZE_SHARE = 1 / 8  # tables are made anew if as much is missing, or not needed
HEAP_SHARE = 1.5  # of the bytes of the keys that wait


def waiting_row_bytes(row_bytes: float, *, fixed: bool = True) -> float:
    """What a row costs while it waits, beside the bytes of a key that is no single word."""
    return ENTRY_BYTES + CHARGE_FACTOR * (row_bytes + SIZE_BYTES) + (0 if fixed else SPAN_BYTES)


@dataclass(kw_only=True, eq=False, slots=True)
class Found:
    """Keys that wait and were found in some pages of R, and their rows there: counts[k] of row_at for each.

    All of it is good until the next pages are looked through."""

    keys: I64
    counts: I64
    row_at: I64
    pages: int
    rows_seen: int
    at_begin: bool  # the first row's key is among them
    at_end: bool  # so is the last row's


class QueueRoom:
    """Holds rows while they fit `capacity()` bytes, which may change; no more than `rows_max` at a time.

    With `split_into(k)` it takes one k-th of what it can hold between two reads of R, as MESHJOIN does, and without
    it whatever fits, as HYBRIDJOIN does. Memory: what `waiting_row_bytes` says for each row, and the bytes of keys
    that are no single words. All of it is reserved when the first row comes; with `exchanged`, only what the rows take
    that wait, so that others may use the rest.
    """

    def __init__(
        self,
        budget: MemoryBudget,
        capacity: Callable[[], int],
        *,
        fixed: bool,
        rows_max: int | None = None,
        exchanged: bool = False,
    ) -> None:
        self._reservation = budget.reserve("waiting room", 0)
        self._capacity, self._fixed, self._rows_max = capacity, fixed, rows_max
        self._is_exchanged = exchanged
        self.rows = KeptRows()
        self.stamp = 0
        self._row_bytes = self._each_bytes = 0.0
        self._base = waiting_row_bytes(0, fixed=fixed)
        self._parts: int | None = None
        self._put_in_part = 0
        self._batch: pa.RecordBatch | None = None
        self._batch_first = 0
        self._state = np.zeros(tables.STATES, np.int64)
        self._counters = self._state.data  # the fastest way to read one number from Python
        self._heap: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._allocate(0)

    @property
    def count(self) -> int:
        return self._counters[tables.ROWS]

    def space(self, row_bytes: float) -> int:
        if row_bytes != self._row_bytes:
            self._expect(row_bytes)
        rows = self._counters[tables.ROWS]
        fitting = min(int(self._left_bytes / self._each_bytes), self._table_rows - rows)
        if self._parts is not None:
            fitting = min(fitting, self.part_rows - self._put_in_part)
        return max(fitting, 0 if rows else 1)

    @property
    def part_rows(self) -> int:
        """w of MESHJOIN: rows taken between two reads of R."""
        rows = min(self._table_rows, int(self._capacity() / self._charge(self._row_bytes)))
        return max(1, rows // max(1, self._parts or 1))

    def split_into(self, parts: int | None) -> None:
        """A read of R is done: the next part of `parts` may come in."""
        self._parts, self._put_in_part = parts, 0

    def put(self, arrivals: Arrivals, index: I64) -> int:
        if arrivals.row_bytes != self._row_bytes:
            self._expect(arrivals.row_bytes)
        keys = arrivals.keys
        if self._batch is not arrivals.batch:
            self._batch, self._batch_first = arrivals.batch, self.rows.append(arrivals.batch)
        sizes, base = self.rows.last_sizes, self._base - CHARGE_FACTOR * PAIR_BYTES
        if self._fixed:
            chosen, hashes, left_bytes = (
                index,
                keys.prefix,
                self._left_bytes,
            )  # a word is hashed where it is looked up
        else:
            fitting = kernels.fitting(
                index, sizes, keys.offsets, base, CHARGE_FACTOR, HEAP_SHARE, self._left_bytes
            )
            chosen, hashes, left_bytes = (
                index[: min(fitting, self._table_rows - self.count)],
                keys.hashes,
                math.inf,
            )
            if chosen.size:
                self._make_heap_room(int((keys.offsets[chosen + 1] - keys.offsets[chosen]).sum()))
        taken: int = kernels.put(
            self._where, keys.prefix, hashes, keys.offsets, keys.data_address, chosen, sizes,
            arrivals.shards_of(chosen), self._batch_first, self.stamp, base, CHARGE_FACTOR, left_bytes,
        )  # fmt: skip
        if not taken and not self.count:
            self._refuse(int(base + CHARGE_FACTOR * sizes[index[0]]))
        self._put_in_part += taken
        self._reserve()
        return taken

    def take(self) -> Waiting | None:
        taken = self.take_oldest(self.count)
        return taken[0] if taken else None

    def take_oldest(self, count: int, stamp_max: int = (1 << 62)) -> tuple[Waiting, I64] | None:
        """The `count` oldest rows with a stamp up to stamp_max leave; and how many master rows those of each key
        met. Rows of one key that met different ones stand apart."""
        rows = np.empty(count, np.int64)
        return self._take_rows(rows[: kernels.oldest(self._where, stamp_max, rows)])

    def take_newest(self, count: int) -> tuple[Waiting, I64] | None:
        """The `count` newest rows leave."""
        rows = np.empty(min(count, self.count), np.int64)
        return self._take_rows(rows[: kernels.newest(self._where, rows)])

    def key_at(self, share: float) -> I64:
        """The key of the row that stands at this share of Q, counted from the oldest."""
        return np.array([kernels.key_at(self._where, int(share * (self.count - 1)))], np.int64)

    def shard_of(self, key: I64) -> int:
        return int(self._meta[key[0], tables.SHARD])

    def is_waited_for(self, key: I64) -> bool:
        """Does anybody still wait for a key that was waited for at the last `put`?"""
        return bool(self._meta[key[0], tables.COUNT])

    def find(
        self, page_at: I64, page_bytes: int, short: int, *, keys: I64, counts: I64, row_at: I64
    ) -> Found:
        """Which of some pages' rows are waited for, told in the arrays given; ends early where they might not hold
        them."""
        pages, found, rows, seen, at_begin, at_end = match_pages(
            self._where, page_at, page_bytes, short, keys, counts, row_at
        )
        return Found(
            keys=keys[:found], counts=counts[:found], row_at=row_at[:rows],
            pages=pages, rows_seen=seen, at_begin=at_begin, at_end=at_end,
        )  # fmt: skip

    def waiting(self, keys: I64, counts: I64, *, leave: bool) -> Waiting:
        """Who waits for these keys, and has met counts[k] more rows of R now; they may be served by that. Good until
        it is asked again."""
        size = keys.size
        starts, prefix = np.empty(size + 1, np.int64), np.empty(size, np.uint64)
        shards = np.empty(size, np.int32)
        batch = KeyBatch.of_words(prefix) if self._fixed else self.key_batch(keys)
        rows = kernels.serve(
            self._where, keys, counts, leave, self.rows.origin, self._order, starts, prefix, shards
        )
        return Waiting(rows=self.rows, keys=batch, shards=shards, order=self._order[:rows], starts=starts)

    def key_batch(self, keys: I64) -> KeyBatch:
        if self._fixed:
            return KeyBatch.of_words(self._words[keys])
        sizes = np.empty(keys.size, np.int64)
        kernels.key_sizes(self._where, keys, sizes)
        offsets = offsets_from(sizes)
        data = np.empty(int(offsets[-1]), np.uint8)
        kernels.key_bytes(self._where, keys, offsets, address_of(data))
        return KeyBatch(
            prefix=self._words[keys],
            valid=np.ones(keys.size, np.bool_),
            fixed=False,
            offsets=offsets,
            data=data,
        )

    def settle(self) -> None:
        """Keeps of the last batch only those who wait, and puts the others together where many have left."""
        if self._batch is not None:
            self._batch = None
            self._cut_chunk(self.rows.chunk_count - 1)
            self.rows.merge()
        oldest = self._counters[tables.OLDEST]
        self.rows.drop_before(int(self._row_at[oldest]) if oldest >= 0 else 1 << 62)
        if self.rows.rows > (1 + GARBAGE_SHARE) * self.count + 64:
            for chunk in reversed(range(self.rows.chunk_count)):
                self._cut_chunk(chunk)
        if not self._fixed and self._state[tables.HEAP_USED] > 2 * self._state[tables.HEAP_LIVE] + 4096:
            self._make_heap_room(0)
        if self._is_exchanged:
            self._fit_tables()
            self._reserve()

    def check_invariants(self) -> None:
        state = self._state
        assert 0 <= state[tables.KEYS] <= state[tables.ROWS] <= self._table_rows
        keys = self._slots[self._slots >= 0] & tables.KEY_MASK
        assert int(self._meta[keys, tables.COUNT].sum()) == self.count
        assert (self._slots >= 0).sum() == state[tables.KEYS]
        assert state[tables.CHARGED] >= 0
        assert (state[tables.CHARGED] > 0) == (self.count > 0)

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _left_bytes(self) -> float:
        return self._capacity() - float(self._counters[tables.CHARGED] + self._heap.size)

    def _charge(self, row_bytes: float) -> float:
        return self._base + CHARGE_FACTOR * row_bytes

    def _expect(self, row_bytes: float) -> None:
        """The first rows tell how many will fit."""
        first, self._row_bytes = not self._row_bytes, max(row_bytes, 1.0)
        heap_bytes = 0.0 if self._fixed else HEAP_SHARE * self._row_bytes
        self._each_bytes = self._charge(self._row_bytes) + heap_bytes
        if first:
            self._allocate(self._rows_expected())
            self._reserve()

    def _rows_expected(self) -> int:
        rows = max(1, int(self._capacity() / self._charge(self._row_bytes)))
        return min(rows, self._rows_max or rows)

    def _reserve(self) -> None:
        if self._is_exchanged:
            self._reservation.resize(self._counters[tables.CHARGED] + self._heap.size)
        elif not self._reservation.size_bytes:
            self._reservation.resize(self._capacity())

    def _fit_tables(self) -> None:
        """Others have taken some of the memory, or given some back: smaller or larger tables."""
        rows, size = max(self._rows_expected(), self.count), self._table_rows
        if self._row_bytes and not (1 - RESIZE_SHARE) * size <= rows <= (1 + RESIZE_SHARE) * size:
            state, place = self._state.copy(), self._where
            before = (
                self._links,
                self._row_at,
                self._stamps,
                self._words,
                self._meta,
                self._spans,
                self._slots,
            )
            place[tables.STATE_AT] = address_of(state)
            self._allocate(rows)
            kernels.move(place, self._where)
            del before  # was needed until here: `place` only says where it is

    def _refuse(self, charge: int) -> None:
        raise BudgetError(
            f"a stream row takes about {charge:,} bytes while it waits; the waiting room has "
            f"{self._capacity():,} bytes.",
            hint="give the join more memory, or join before adding wide columns to the stream.",
        )

    def _allocate(self, rows: int) -> None:
        """Empty tables; the keys' bytes stay."""
        self._table_rows = rows
        self._links: npt.NDArray[np.int32] = np.empty((rows, tables.LINKS), np.int32)
        self._row_at, self._stamps = np.empty(rows, np.int64), np.empty(rows, np.int64)
        self._words = np.empty(rows, np.uint64)
        self._meta = np.empty((rows, tables.METAS), np.int32)
        self._spans = np.empty((0 if self._fixed else rows, tables.SPANS), np.int64)
        self._slots: I64 = np.empty(max(8, int(rows * SLOTS_PER_KEY)), np.int64)
        self._order = np.empty(rows, np.int64)
        tables.clear(self._slots, self._state)
        self._where = self._locate()

    def _locate(self) -> I64:
        arrays = (
            self._links, self._row_at, self._stamps, self._words, self._meta, self._spans, self._heap, self._slots,
            self._state,
        )  # fmt: skip
        sizes = [int(self._fixed), self._table_rows, self._slots.size]
        return np.array([*sizes, *(address_of(array) for array in arrays)], np.int64)

    def _take_rows(self, rows: I64) -> tuple[Waiting, I64] | None:
        if not rows.size:
            return None
        keys, met = self._links[rows, tables.KEY].astype(np.int64), self._links[rows, tables.MET]
        batch, shards = self.key_batch(keys), self._meta[keys, tables.SHARD]
        place = self._row_at[rows] - self.rows.origin
        order = batch.sort_order()
        order = order[np.argsort(shards[order], kind="stable")]
        # Of one key, those who met nothing come first.
        run = np.cumsum(np.diff(keys[order], prepend=-1) != 0)
        order = order[np.lexsort((met[order] > 0, run))]
        starts = np.flatnonzero(
            (np.diff(keys[order], prepend=-1) != 0) | (np.diff(met[order] > 0, prepend=False) != 0)
        ).astype(np.int64)
        firsts = order[starts]
        waiting = Waiting(
            rows=self.rows,
            keys=batch.take(firsts),
            shards=shards[firsts],
            order=place[order],
            starts=np.append(starts, rows.size),
        )
        before = met[firsts].astype(np.int64)
        kernels.remove_rows(self._where, rows)
        return waiting, before

    def _cut_chunk(self, chunk: int) -> None:
        first, stop = self.rows.chunk_range(chunk)
        kept = np.empty(stop - first, np.int64)
        kept = kept[: kernels.renumber(self._where, first, stop, kept)]
        if kept.size < stop - first:
            self.rows.keep_of_chunk(chunk, kept)

    def _make_heap_room(self, more: int) -> None:
        """Puts the keys' bytes together anew if that is due, with room for `more`."""
        state = self._state
        if state[tables.HEAP_USED] + more > self._heap.size or not more:
            heap = np.empty(int((state[tables.HEAP_LIVE] + more) * HEAP_SHARE), np.uint8)
            kernels.compact_heap(self._where, address_of(heap))
            self._heap = heap
            self._where[tables.HEAP_AT] = address_of(heap)
