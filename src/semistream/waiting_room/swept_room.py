"""The waiting room of the default algorithm: rows wait where their keys are in R.

While the pages they need are few and far between, rows wait in the order they came, and all of them leave together. Once
many rows share a page it pays to keep the room full while R is swept from end to end, again and again: then a row
waits in the part of R where its key is, and leaves when the sweep comes by.

    put -> fresh --sorted in--> | part 0 | part 1 | ... | part P-1 |
                                             ^ hand: this part is taken next

Rows that come in behind the hand wait for its next round, half a round on average; so a room for H rows serves
2 H P / (P + 1) of them in a round, where one that is filled and then emptied serves H.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import row_sizes
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, Arrivals, Waiting
from semistream.core.keys import KeyBatch, KeyEncoder, concat_keys
from semistream.master_table.contract import TableShard, misplaced
from semistream.waiting_room.key_order import in_key_order

# What serving takes per row, beside its own bytes and its key's: order, shard and start of its run (20 bytes), the
# pages and slots of its key (40), counts, hashes and frequencies on the way to the front stage (25), and what
# sorting takes at its peak (16).
BOOKKEEPING_BYTES = 101
COPIES = 2  # those who are served are put together once
SHARD_BYTES = 4
PIECE_BYTES, COLUMN_BYTES = 256, 256  # of a batch of Arrow, beside its rows
UNEVEN = 1.25  # how much fuller than on average a part may be to be served at once
PARTS_MAX = 64
ROWS_PER_PART_MIN = 256  # of a room with fewer rows, the batches would be too small


def swept_parts(total_bytes: int, row_bytes: float) -> int:
    """P for a join with so much memory: many parts of R, but not too few rows in each."""
    rows = total_bytes / 2 / max(1.0, row_bytes)
    return max(1, min(PARTS_MAX, int(rows / ROWS_PER_PART_MIN)))


@dataclass(eq=False)
class _Part:
    """Rows whose keys are in one part of R, in the batches they were sorted in with, and since when each waits."""

    shard: int
    pieces: list[pa.RecordBatch] = field(default_factory=list)
    since_s: list[float] = field(default_factory=list)
    taken: int = 0  # rows of the first piece that left already

    @property
    def rows(self) -> int:
        return sum(piece.num_rows for piece in self.pieces) - self.taken

    @property
    def charge(self) -> int:
        return sum(_piece_bytes(piece.nbytes, piece.num_columns) for piece in self.pieces)

    def add(self, piece: pa.RecordBatch, since_s: float) -> None:
        """Small neighbours are put together, so that there are few: a row is copied about log2(pieces) times."""
        self.pieces.append(piece)
        self.since_s.append(since_s)
        while (
            len(self.pieces) > 1 + (self.taken > 0)
            and self.pieces[-2].num_rows < 2 * self.pieces[-1].num_rows
        ):
            self.pieces[-2:] = [pa.concat_batches(self.pieces[-2:])]
            del self.since_s[-1]


class SweptRoom:
    """Holds rows up to `capacity()` bytes, the bookkeeping for serving them included.

    `is_swept` decides how rows wait from the next put on, `rows_max` how many may; a step of a sweep serves
    `step_rows_min` rows or more, if there are. `now` tells the time that rows wait since; see `oldest_s`.
    """

    def __init__(
        self,
        budget: MemoryBudget,
        capacity: Callable[[], int],
        shards: Mapping[int, TableShard],
        *,
        parts: int,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._reservation = budget.reserve("waiting room", 0)
        self._capacity, self._now = capacity, now
        self._shards_open, self.is_swept, self.cycles = shards, False, 0
        each = max(1, parts // max(1, len(shards)))
        self._parts = [_Part(shard) for shard in sorted(shards) for _ in range(each)]
        self._first_part = {shard: i * each for i, shard in enumerate(sorted(shards))}
        self._parts_per_shard = each
        self.rows_max, self.step_rows_min = 1 << 62, 1
        self._hand = 0
        self._count = self._sorted_count = 0
        self._sorted_bytes = self._row_bytes = 0.0
        self._pieces_bytes = 0  # what a batch for each part takes beside its rows
        self._encoder: KeyEncoder | None = None
        self._key_positions: tuple[int, ...] = ()
        self._fresh_since_s = math.inf
        self._clear_fresh()

    @property
    def count(self) -> int:
        return self._count

    @property
    def parts(self) -> int:
        return len(self._parts)

    @property
    def oldest_s(self) -> float:
        """Since when the one who has waited longest waits; infinite if nobody does."""
        since = [part.since_s[0] for part in self._parts if part.since_s]
        return min([*since, self._fresh_since_s], default=math.inf)

    def space(self, row_bytes: float) -> int:
        self._row_bytes = row_bytes
        if self._is_full:
            return 0
        fitting = int(self._left_bytes / self._charge(row_bytes))
        if self._sweeps:
            fitting = min(fitting, max(1, self._fresh_max(row_bytes) - self._fresh_count))
        return max(min(fitting, self.rows_max - self._count), 0 if self._count else 1)

    def put(self, arrivals: Arrivals, index: I64) -> int:
        """Takes as many of the first rows as there is room for. A row that would not even fit alone waits alone, in
        the batch that it came with."""
        rows, keys = arrivals.batch.take(pa.array(index)), arrivals.keys.take(index)
        self._row_bytes = arrivals.row_bytes
        self._pieces_bytes = len(self._parts) * _piece_bytes(0, arrivals.batch.num_columns)
        charges = self._charge(row_sizes(rows) + keys.sizes)
        fitting = int(np.searchsorted(np.cumsum(charges), self._left_bytes, side="right"))
        if not fitting and not self._count:
            fitting, charges = 1, np.zeros(1)
            rows = arrivals.batch.slice(int(index[0]), 1)
            self._is_full = True
        if fitting:
            self._fresh_rows.append(rows.slice(0, fitting))
            self._fresh_keys.append(keys.slice(0, fitting))
            self._fresh_shards.append(arrivals.shards_of(index[:fitting]))
            self._fresh_bytes += float(charges[:fitting].sum())
            self._fresh_count += fitting
            self._fresh_since_s = min(self._fresh_since_s, self._now())
            self._encoder, self._key_positions = arrivals.encoder, arrivals.key_positions
            self._count += fitting
            if self._sweeps and not self._is_full:
                row_bytes = float(charges[:fitting].mean())
                if self._fresh_count >= self._fresh_max(row_bytes):
                    self._sort_in()
            self._reserve()
        return fitting

    def take(self) -> Waiting | None:
        """Everyone."""
        if not self._count:
            return None
        for part in self._parts:
            while part.pieces:
                taken: list[pa.RecordBatch] = []
                self._take_rows(part, part.rows, taken)
                for rows in taken:
                    self._fresh_rows.append(rows)
                    self._fresh_keys.append(self._keys_of(rows))
                    self._fresh_shards.append(np.full(rows.num_rows, part.shard, np.int32))
        waiting = self._of_fresh()
        self._count = self._sorted_count = 0
        self._sorted_bytes, self._hand = 0.0, 0
        self.cycles += 1
        self._clear_fresh()
        self._reserve()
        return waiting

    def take_next(self, *, oldest: bool = False) -> Waiting | None:
        """Those whose keys are in the part of R that the sweep comes to, or where the one who waited longest is;
        everyone, if rows do not wait by place. Of a part that is too full to be served at once, those who came first."""
        if not self._count:
            return None
        if self._sweeps and self._fresh_count and not self._is_full:
            self._sort_in()
        if not self._sorted_count:
            return self.take()
        while not self._parts[self._hand].pieces:
            self._advance()
        free = max(self._free_bytes, self._reserve_bytes)
        most = max(1, int(free / (COPIES * self._row_bytes + BOOKKEEPING_BYTES)))
        taken: list[pa.RecordBatch] = []
        if oldest:
            part = min(self._parts, key=lambda each: each.since_s[0] if each.since_s else math.inf)
            self._take_rows(part, most, taken)
        else:
            part = self._parts[self._hand]
            last = min(self._hand + self._parts_at_once, self._first_part[part.shard] + self._parts_per_shard)
            for self._hand in range(self._hand, last):  # noqa: B020
                left = most - sum(piece.num_rows for piece in taken)
                if self._take_rows(self._parts[self._hand], left, taken):
                    break
        if not self._parts[self._hand].pieces:
            self._advance()
        self._reserve()
        rows = taken[0] if len(taken) == 1 else pa.concat_batches(taken)
        return in_key_order(rows, self._keys_of(rows), np.full(rows.num_rows, part.shard, np.int32))

    def settle(self) -> None:
        """Rows are put together when they are taken, or sorted in."""

    def check_invariants(self) -> None:
        assert self._reservation.size_bytes >= int(self._held_bytes)
        assert self._count == sum(rows.num_rows for rows in self._fresh_rows) + self._sorted_count
        assert self._sorted_count == sum(part.rows for part in self._parts)

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _sweeps(self) -> bool:
        """A batch for each part must not be too much for the room, and a step must not be all of a sweep. (Rows that were
        sorted in leave part after part also when nobody is sorted in any more.)"""
        is_large = 4 * self._pieces_bytes < self._capacity()
        return self.is_swept and is_large and 2 * self._parts_at_once <= len(self._parts)

    @property
    def _parts_at_once(self) -> int:
        """So many are served in one step that it is worth a step."""
        rows = self._capacity() / max(1.0, self._stored_bytes)
        return max(1, math.ceil(len(self._parts) * self.step_rows_min / max(1.0, rows)))

    @property
    def _stored_bytes(self) -> float:
        """Of a row that was sorted in, on average."""
        return self._sorted_bytes / self._sorted_count if self._sorted_count else self._row_bytes

    @property
    def _held_bytes(self) -> float:
        return self._fresh_bytes + self._sorted_bytes

    @property
    def _free_bytes(self) -> float:
        return max(0.0, self._capacity() - self._held_bytes)

    @property
    def _reserve_bytes(self) -> float:
        """What is kept free for serving, where rows do not bring it along.

        Of H rows in P parts, 2 H / (P + 1) are in the part that is served. So they fit what is left of the memory if the
        rows who wait take their share of H row_bytes + 2 H / P (COPIES row_bytes + bookkeeping). A part that does not fit
        would be read twice, so some more is kept for those that are fuller than others.
        """
        if not (self._sweeps or self._sorted_count):
            return 0.0
        served = 2 * UNEVEN * (COPIES * self._row_bytes + BOOKKEEPING_BYTES)
        served *= min(self._parts_at_once, len(self._parts)) / len(self._parts)
        left = max(0.0, self._capacity() - self._pieces_bytes)
        return self._pieces_bytes + left * served / (self._stored_bytes + served)

    @property
    def _left_bytes(self) -> float:
        return self._free_bytes - self._reserve_bytes

    def _charge(self, row_bytes: Any) -> Any:
        """For one size, or an array of them."""
        return row_bytes + SHARD_BYTES if self._sweeps else COPIES * row_bytes + BOOKKEEPING_BYTES

    def _fresh_max(self, row_bytes: float) -> int:
        """How many rows can be sorted in at once: they are copied, and their pages are looked up."""
        return max(1, int(self._reserve_bytes / (COPIES * row_bytes + BOOKKEEPING_BYTES)))

    def _reserve(self) -> None:
        """What serving will take is reserved with what is held, so that nobody else gets it meanwhile."""
        reservation = self._reservation
        wanted = int(self._held_bytes + self._reserve_bytes)
        possible = reservation.size_bytes + reservation.budget.left_bytes
        reservation.resize(max(int(self._held_bytes), min(wanted, possible)))

    def _advance(self) -> None:
        self._hand += 1
        if self._hand == len(self._parts):
            self._hand = 0
            self.cycles += 1

    def _sort_in(self) -> None:
        """Everyone who is fresh waits where his key is from now on."""
        rows = pa.concat_batches(self._fresh_rows)
        keys, shards = concat_keys(self._fresh_keys), np.concatenate(self._fresh_shards)
        since_s = self._fresh_since_s
        self._clear_fresh()
        order = keys.sort_order()
        places = self._places(keys.take(order), shards[order])
        by_place = np.argsort(places, kind="stable")
        order, places = order[by_place], places[by_place]
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        for first, stop in zip(starts.tolist(), [*starts[1:].tolist(), places.size], strict=True):
            part = self._parts[places[first]]
            before = part.charge
            part.add(rows.take(pa.array(order[first:stop])), since_s)
            self._sorted_bytes += part.charge - before
        self._sorted_count += rows.num_rows

    def _places(self, keys: KeyBatch, shards: npt.NDArray[np.int32]) -> I64:
        """Which part each of the sorted keys is in."""
        places = np.empty(len(keys), np.int64)
        for shard in np.unique(shards).tolist():
            mine = np.flatnonzero(shards == shard)
            if shard not in self._shards_open:
                raise misplaced(shard, self._shards_open)
            opened = self._shards_open[shard]
            first_page, _ = opened.fences.locate(keys.take(mine))
            local = first_page * self._parts_per_shard // max(1, opened.info.pages)
            places[mine] = self._first_part[shard] + np.clip(local, 0, self._parts_per_shard - 1)
        return places

    def _take_rows(self, part: _Part, most: int, taken: list[pa.RecordBatch]) -> bool:
        """The first rows of a part go to `taken`. Of a batch that is taken in parts, the bytes count until it is gone.
        Returns whether the part has more."""
        while part.pieces and most > 0:
            piece = part.pieces[0]
            left = piece.num_rows - part.taken
            count = min(left, most)
            taken.append(piece.slice(part.taken, count))
            most -= count
            self._count -= count
            self._sorted_count -= count
            part.taken += count
            if count == left:
                self._sorted_bytes -= _piece_bytes(piece.nbytes, piece.num_columns)
                del part.pieces[0], part.since_s[0]
                part.taken = 0
        return bool(part.pieces)

    def _keys_of(self, rows: pa.RecordBatch) -> KeyBatch:
        """Made anew from the rows: keeping them would cost room for other rows."""
        assert self._encoder is not None
        return self._encoder.encode([rows.column(position) for position in self._key_positions])

    def _of_fresh(self) -> Waiting:
        rows = self._fresh_rows[0] if len(self._fresh_rows) == 1 else pa.concat_batches(self._fresh_rows)
        return in_key_order(rows, concat_keys(self._fresh_keys), np.concatenate(self._fresh_shards))

    def _clear_fresh(self) -> None:
        self._fresh_rows: list[pa.RecordBatch] = []
        self._fresh_keys: list[KeyBatch] = []
        self._fresh_shards: list[npt.NDArray[np.int32]] = []
        self._fresh_bytes, self._fresh_count = 0.0, 0
        self._fresh_since_s = math.inf
        self._is_full = False


def _piece_bytes(row_bytes: int, columns: int) -> int:
    return row_bytes + PIECE_BYTES + COLUMN_BYTES * columns
