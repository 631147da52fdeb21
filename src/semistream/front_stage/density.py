"""The default front stage: keeps the keys whose rows save the most reads of R per byte.

Frequencies: a cached key counts its own hits; the misses are counted by a small sketch. Both are halved
together after a while, so the cache follows drift. When the arena is full, the densest keys that fit stay
and the bar for newcomers is the density at which the cut fell. A key that R does not have is an entry
without rows: cheap, and therefore dense.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np

from semistream.core.budget import Reservation
from semistream.core.contracts import I64, Answers, ChunkLimit, JoinKind, MasterRows, Matches, Pairs
from semistream.core.exchange import FixedSplit, Split
from semistream.core.keys import KeyBatch
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.front_stage import _kernels as kernels
from semistream.front_stage import _sketch_kernels as sketches
from semistream.front_stage.region import Region

HEADER_BYTES = 4096
SKETCH_SHARE = 1 / 24  # of the region: about 5 bytes per cached row of 120
SIGHTINGS_PER_ENTRY = 40  # misses counted per cached key before all frequencies are halved
SLACK_SHARE = 1 / 48  # freed by a compaction, so that the next one is not due at once
SLOTS_PER_ENTRY = 5 / 4
SLOT_BYTES = 4 * SLOTS_PER_ENTRY
ENTRY_SHARE_MAX = 1 / 8  # of the arena that one key may take
MEMORY = 15 / 16  # of the hit ratio, from weighing to weighing
WEIGHED_SHARE = 1 / 4  # as many rows as this part of the entries come between two weighings
SIZE_MIN_BYTES = HEADER_BYTES + 16384
SIZE_MAX_BYTES = 8 << 30  # positions are 31 bits of 4-byte units


def least_bytes(region_bytes: int) -> int:
    """The least that a front stage in such a region can do with."""
    return (SIZE_MIN_BYTES + int(region_bytes * SKETCH_SHARE)) // 8 * 8


_FORMAT = 1  # of a region's content: to be raised with every change of it

# Fields of the header, 8 bytes each
_IDENTITY, _DIRTY, _SLOTS, _TAIL, _ENTRIES, _ROWS, _SIGHTINGS, _BAR, _WINDOW, _DRAIN, _RECENT = range(11)


_believed: set[tuple[int, int]] = set()


class DensityFrontStage:
    """A front stage in a `Region`; one that remembers is taken over if it belongs to the same join.

    Guarantee: an answer is the complete set of rows of its key in the table's version, or a miss. A process
    that dies while it changes the region leaves it marked, and the next one starts cold.

    Memory: `reservation`, of the region what `split` says, and up to `decode_bytes` while it admits. Cost: one or two cache misses per probe; a compaction moves the region's
    bytes once, and happens after at least SLACK_SHARE of it was filled anew.
    """

    def __init__(
        self,
        region: Region,
        *,
        layout: RowLayout,
        fixed: bool,
        identity: str,
        row_bytes: float,
        decode_bytes: int,
        reservation: Reservation,
        split: Split | None = None,
    ) -> None:
        self.layout, self._region, self._fixed = layout, region, fixed
        self._reservation = reservation
        self._split = split or FixedSplit(front_bytes=region.size_bytes)
        self._seen = self._answered = 0.0
        self._unweighed = 0
        self._cycles = 0
        self._decode_bytes = decode_bytes // 2  # rows that are not inserted after all are filtered by a copy
        self._words = region.bytes[:HEADER_BYTES].view(np.uint64)
        self._floats = region.bytes[:HEADER_BYTES].view(np.float64)
        self._lines = max(1, int(region.size_bytes * SKETCH_SHARE) // 64)
        self._sketch = region.address + HEADER_BYTES
        self._arena = self._sketch + 64 * self._lines
        self._arena_bytes = self._arena_of(region.size_bytes)
        self._position_bits = (self._arena_bytes // kernels.UNIT_BYTES + 1).bit_length()
        self._row_shape = layout.kernel_shape
        self._entry_bytes_expected = row_bytes + 4 + SLOT_BYTES
        self._identity = np.uint64(
            int.from_bytes(hashlib.sha256(f"{_FORMAT} {identity}".encode()).digest()[:8], "little") | 1
        )
        self._cold_starts = self._switched = 0
        if not self._is_usable():
            self._reset()

    def probe(self, keys: KeyBatch, start: int, misses_max: int) -> Answers:
        entries = np.empty(len(keys) - start, np.int64)
        probed, present, absent, nulls = kernels.probe(
            self._arena, self._slots, self._slot_count, self._position_bits, self._fixed,
            keys.prefix, keys.valid, keys.hashes, keys.offsets, keys.data_address, start, misses_max, entries,
        )  # fmt: skip
        self._count_rows(present + absent)
        self._seen += probed - nulls
        self._unweighed += probed
        self._answered += present + absent
        return Answers(entries=entries[:probed], present=present, absent=absent, nulls=nulls, probes=probed)

    def pairs(self, answers: Answers, kind: JoinKind, limit: ChunkLimit) -> Iterator[Pairs]:
        state = np.zeros(3, np.int64)
        while state[0] < answers.entries.size:
            index, rows = np.empty(limit.pairs, np.int64), np.empty(limit.pairs, np.int64)
            filled = kernels.pairs(
                answers.entries, self._fixed, *self._row_shape,
                kind.every_match, kind.once, kind.absent, limit.pair_bytes, limit.bytes, state, index, rows,
            )  # fmt: skip
            if filled:
                yield Pairs(stream_index=index[:filled], row_at=rows[:filled])

    def admit(self, matches: Matches, rows: MasterRows) -> None:
        whole = matches.whole
        if not whole.any():
            return
        keys, sightings, counts, mine = matches.keys, matches.sightings, matches.counts, matches.row_at
        if not whole.all():
            mine, picked = mine[np.repeat(whole, counts)], np.flatnonzero(whole)
            keys, sightings, counts = keys.take(picked), sightings[picked], counts[picked]
        self._count_rows(int(sightings.sum()))
        estimates, chosen = self._sight(keys, sightings, counts)
        # Where rows go on waiting after a match, a key is offered again while it is known already.
        kernels.forget_known(
            self._arena, self._slots, self._slot_count, self._position_bits, self._fixed,
            keys.prefix, keys.hashes, keys.offsets, keys.data_address, chosen,
        )  # fmt: skip
        if not chosen.any():
            return
        if not chosen.all():
            mine, picked = mine[np.repeat(chosen, counts)], np.flatnonzero(chosen)
            keys, estimates, counts = keys.take(picked), estimates[picked], counts[picked]
        key_ends = np.concatenate([[0], np.cumsum(counts)])
        for start, stop in self._pieces(key_ends, rows.sizes(mine)):
            row_at = mine[key_ends[start] : key_ends[stop]]
            self._insert(keys.slice(start, stop), estimates[start:stop], counts[start:stop], row_at, rows)

    def adapt(self, cycles: int) -> None:
        if cycles > self._cycles or not cycles:
            drain, recent = self._floats[_DRAIN], self._floats[_RECENT]
            self._floats[_DRAIN] = recent if drain == 0 else 0.9 * drain + 0.1 * recent
            self._floats[_RECENT] = 0
            self._cycles = cycles
        self._weigh()
        capacity = self._arena_bytes / self._entry_bytes_expected
        if self._words[_SIGHTINGS] >= SIGHTINGS_PER_ENTRY * max(capacity, float(self._words[_ENTRIES])):
            self._reselect(halve=True)

    def report(self, metrics: JoinMetrics) -> None:
        metrics.front_stage_keys = int(self._words[_ENTRIES])
        metrics.front_stage_rows = int(self._words[_ROWS])
        metrics.front_stage_bytes = int(self._words[_TAIL])
        metrics.front_stage_cold_starts = self._cold_starts
        metrics.switched = self._switched

    def close(self) -> None:
        self._region.close()

    def check_invariants(self) -> None:
        """AssertionError if the region does not hold together."""
        assert self._is_sound(), "the front stage's entries and slots do not fit each other"

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _slot_count(self) -> int:
        return int(self._words[_SLOTS])

    @property
    def _slots(self) -> int:
        return self._arena + self._arena_bytes - 4 * self._slot_count

    def _arena_of(self, size_bytes: int) -> int:
        return (size_bytes - HEADER_BYTES - 64 * self._lines) // 8 * 8

    def _weigh(self) -> None:
        """Says what the last byte is worth, and takes or gives back what follows from it: all entries are moved then, so
        it is not done for few rows."""
        if self._unweighed < WEIGHED_SHARE * float(self._words[_ENTRIES]):
            return
        self._unweighed = 0
        hit_ratio = self._answered / self._seen if self._seen else 0.0
        self._split.weigh(hits_per_byte=self._hits_per_byte, hit_ratio=hit_ratio)
        self._seen, self._answered = MEMORY * self._seen, MEMORY * self._answered
        reservation = self._reservation
        allowed = (
            min(self._split.front_bytes, reservation.size_bytes + reservation.budget.left_bytes) // 8 * 8
        )
        # What was agreed on may be in use on the other side for a while; too little is not worth the work.
        if abs(allowed - reservation.size_bytes) * 64 > self._region.size_bytes:
            self._allow(allowed)

    def _allow(self, size_bytes: int) -> None:
        if size_bytes > self._reservation.size_bytes:
            self._reservation.resize(size_bytes)
        self._arena_bytes = self._arena_of(size_bytes)
        self._reselect(halve=False)
        self._region.give_back(size_bytes)
        self._reservation.resize(size_bytes)

    def _hits_per_byte(self) -> float:
        """p': the share of the stream rows that the last byte answers. Of a cache that is not full it is what a key
        would bring that was seen once."""
        drain, window = self._density_parameters()
        entries, bar = int(self._words[_ENTRIES]), int(self._words[_BAR])
        size = self._entry_bytes_expected
        if entries:
            size = int(self._words[_TAIL]) / entries + SLOT_BYTES
        if not bar:
            return 1.0 / (window * size)
        # The inverse of the kernel's density, at the size of an entry on average.
        saved = min(float(sketches.value_of(bar)) * size, 0.99)
        return -math.log1p(-saved) / (drain * size)

    def _count_rows(self, rows: int) -> None:
        """Rows count once, when they are answered: here if they hit, else when their key comes from R."""
        self._floats[_WINDOW] += rows
        self._floats[_RECENT] += rows

    def _pieces(self, key_ends: I64, row_sizes: I64) -> Iterator[tuple[int, int]]:
        """Runs of keys whose rows may be decoded together. A key whose rows take more than that is left out."""
        reached = np.concatenate([[0], np.cumsum(row_sizes)])[key_ends]
        start, keys = 0, key_ends.size - 1
        while start < keys:
            stop = int(np.searchsorted(reached, reached[start] + self._decode_bytes, side="right")) - 1
            if stop > start:
                yield start, stop
            start = max(stop, start + 1)

    def _sight(self, keys: KeyBatch, sightings: I64, counts: I64) -> tuple[I64, np.ndarray]:
        """(estimated frequencies, who may be dense enough)"""
        key_bytes = 8 if self._fixed else 4 + np.diff(keys.offsets)
        sizes_min = 4 + SLOT_BYTES + key_bytes + counts * self.layout.bytes_min
        estimates, chosen = np.empty(len(keys), np.int64), np.empty(len(keys), np.bool_)
        total = sketches.sketch_and_filter(
            self._sketch, self._lines, keys.hashes, sightings, sizes_min,
            *self._density_parameters(), int(self._words[_BAR]), estimates, chosen,
        )  # fmt: skip
        self._words[_SIGHTINGS] += np.uint64(total)
        return estimates, chosen

    def _insert(self, keys: KeyBatch, estimates: I64, counts: I64, row_at: I64, rows: MasterRows) -> None:
        columns = rows.decode(row_at)
        sizes = self.layout.sizes(columns, row_at.size)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        key_ends = np.concatenate([[0], np.cumsum(counts)])
        body_bytes = np.diff(ends[key_ends])
        placed_at = np.empty(row_at.size, np.int64)
        inserted = np.empty(len(keys), np.bool_)
        state = self._words[_TAIL : _ROWS + 1].astype(np.int64)
        self._words[_DIRTY] = 1
        placed, refused = kernels.insert(
            self._arena, self._arena_bytes - 4 * self._slot_count, self._slots, self._slot_count,
            self._position_bits, int(self._slot_count / SLOTS_PER_ENTRY), state,
            self._fixed, keys.prefix, keys.hashes, keys.offsets, keys.data_address,
            counts, body_bytes, estimates, *self._density_parameters(), int(self._words[_BAR]),
            int(self._arena_bytes * ENTRY_SHARE_MAX), SLOT_BYTES, placed_at, sizes, inserted,
        )  # fmt: skip
        self._switched += int(placed)
        if placed:
            if placed < row_at.size:
                kept = np.repeat(inserted, counts)
                columns = [column.filter(kept) for column in columns]
            self.layout.encode(columns, placed_at[:placed])
        self._words[_TAIL : _ROWS + 1] = state.astype(np.uint64)
        self._words[_DIRTY] = 0
        if refused:
            self._reselect(halve=False)

    def _density_parameters(self) -> tuple[float, float]:
        """(rows per drain, rows seen in the window that the frequencies cover)"""
        drain = max(float(self._floats[_DRAIN]), float(self._floats[_RECENT]))
        # Where reading costs the same whoever waits, a row that is answered saves its place among those who wait.
        drain = max(1.0, drain * (1 - self._split.elasticity))
        return drain, max(float(self._floats[_WINDOW]), 1.0)

    def _reselect(self, *, halve: bool) -> None:
        """Keeps the densest entries that fit, with some slack, and sets the bar where the cut fell."""
        self._words[_DIRTY] = 1
        if halve:
            sketches.halve_sketch(self._sketch, self._lines)
            self._floats[_WINDOW] /= 2
            self._words[_SIGHTINGS] //= np.uint64(2)
        parameters = self._density_parameters()
        shape = (self._fixed, *self._row_shape)
        bytes_in_bin = np.zeros(sketches.BINS, np.int64)
        tail, entries = int(self._words[_TAIL]), int(self._words[_ENTRIES])
        kernels.weigh(self._arena, tail, *shape, halve, *parameters, SLOT_BYTES, bytes_in_bin)
        # Each byte of entries brings its part of slots along.
        slots_per_byte = SLOT_BYTES * entries / tail if tail else 0.0
        room = int(self._arena_bytes * (1 - SLACK_SHARE) / (1 + slots_per_byte))
        from_top = np.cumsum(bytes_in_bin[::-1])[::-1]
        bar, bar_room = 0, room
        if from_top[0] > room:
            bar = int(np.flatnonzero(from_top > room)[-1])
            bar_room = room - int(from_top[bar + 1]) if bar + 1 < sketches.BINS else room
        state = self._words[_TAIL : _ROWS + 1].astype(np.int64)
        kernels.compact(
            self._arena, state, *shape, *parameters, SLOT_BYTES, bar, bar_room, self._sketch, self._lines
        )
        self._words[_TAIL : _ROWS + 1] = state.astype(np.uint64)
        self._words[_BAR] = bar
        self._set_slots(int(state[1]), int(state[0]))
        self._words[_DIRTY] = 0

    def _set_slots(self, entries: int, tail: int) -> None:
        """As many slots as the entries there are, and those that the free room can still take, will need."""
        entry_bytes = tail / entries if entries else self._entry_bytes_expected - SLOT_BYTES
        room = self._arena_bytes - tail
        more = max(0.0, room - entries * SLOT_BYTES) / (entry_bytes + SLOT_BYTES)
        self._words[_SLOTS] = max(16, min(int((entries + more) * SLOTS_PER_ENTRY) + 8, room // 4 - 1))
        kernels.rebuild_slots(
            self._arena,
            tail,
            self._slots,
            self._slot_count,
            self._position_bits,
            self._fixed,
            *self._row_shape,
        )

    def _is_usable(self) -> bool:
        words = self._words
        if self._region.fresh or words[_IDENTITY] != self._identity or words[_DIRTY] != 0:
            return False
        slots, tail = int(words[_SLOTS]), int(words[_TAIL])
        if slots < 16 or tail + 4 * slots > self._arena_bytes:
            return False
        if max(words[_ENTRIES], words[_ROWS]) > self._arena_bytes or words[_BAR] >= sketches.BINS:
            return False
        if not np.isfinite(self._floats[_WINDOW : _RECENT + 1]).all():
            return False
        # A walk over all entries; once per process and file is enough, as every process keeps to the protocol.
        file = self._region.file_id
        if file not in _believed:
            if not self._is_sound():
                return False
            if file:
                _believed.add(file)
        return True

    def _is_sound(self) -> bool:
        return bool(
            kernels.is_sound(
                self._arena, int(self._words[_TAIL]), int(self._words[_ENTRIES]), int(self._words[_ROWS]),
                self._slots, self._slot_count, self._position_bits, self._fixed, *self._row_shape,
            )
        )  # fmt: skip

    def _reset(self) -> None:
        self._cold_starts = 1
        self._words[:] = 0
        self._words[_DIRTY] = 1
        self._region.bytes[HEADER_BYTES : HEADER_BYTES + 64 * self._lines] = 0
        self._words[_IDENTITY] = self._identity
        self._set_slots(0, 0)
        self._words[_DIRTY] = 0
