"""The store of every front stage whose keys come and go one by one: what is cached, where, and how many bytes."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import address_of
from semistream.core.contracts import I64, Answers, ChunkLimit, JoinKind, Pairs
from semistream.core.keys import KeyBatch
from semistream.core.rows import RowLayout
from semistream.front_stage import _answer_kernels as answering
from semistream.front_stage import _proof_kernels as proving
from semistream.front_stage import _table_kernels as kernels

SLACK_SHARE = 1 / 32  # stays free of live entries, so that closing the gaps is not due at once
ENTRY_SHARE_MAX = 1 / 8  # of the table that one key may take
BUCKETS_MIN = 16
SIZE_MIN_BYTES = 2048
SIZE_MAX_BYTES = 8 << 30  # positions are 31 bits of 4-byte units


def entry_bytes_of(row_bytes: float, key_bytes: float = 8.0) -> float:
    """What a key with one row of this size takes, its bucket included."""
    return row_bytes + key_bytes + 8 + kernels.RECORD_BYTES + 4


class EntryTable:
    """Keys with all their rows, in memory of at most `size_bytes`, all counters, links and buckets included.

    Policies see records: numbers from 1 that hold until the next `settle`, a list that each is in, and a word for
    their own use. Cost: two cache misses per probe that hits; closing the gaps moves all bytes once, and happens
    after at least SLACK_SHARE of them came anew.

    `held_bytes` is what it takes now. With `allowed_bytes` below `size_bytes` it stays as if it were that small;
    memory that was never used, or was given back, is not taken from the system.
    """

    def __init__(
        self,
        size_bytes: int,
        *,
        layout: RowLayout,
        fixed: bool,
        row_bytes: float,
        lists: int = 1,
        buckets: int = 0,
    ) -> None:
        assert SIZE_MIN_BYTES <= size_bytes <= SIZE_MAX_BYTES, size_bytes
        self.layout, self.fixed, self.size_bytes = layout, fixed, size_bytes
        expected = int(size_bytes / entry_bytes_of(row_bytes))
        self._buckets = np.zeros(buckets or max(BUCKETS_MIN, expected), np.uint32)
        self._lists = np.zeros((lists, 3), np.int64)
        self.state = np.zeros(kernels.COUNTERS, np.int64)
        self._memory = mmap.mmap(-1, size_bytes // 8 * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        self._set_place()
        self.allow(size_bytes)

    def _set_place(self) -> None:
        base = address_of(self._bytes)
        self.place = kernels.Place(base, base + self._bytes.size, self._buckets, self.state, self._lists)

    # -- bytes -------------------------------------------------------------------------------------------

    @property
    def fixed_bytes(self) -> int:
        """What it takes when it is empty."""
        return int(self._buckets.nbytes + self._lists.nbytes + self.state.nbytes)

    @property
    def held_bytes(self) -> int:
        return self.fixed_bytes + int(
            self.state[kernels.TAIL] + kernels.RECORD_BYTES * self.state[kernels.RECORDS]
        )

    @property
    def live_bytes(self) -> int:
        """What its entries take, without gaps."""
        return int(self.state[kernels.LIVE] + kernels.RECORD_BYTES * self.state[kernels.ENTRIES])

    @property
    def capacity_bytes(self) -> int:
        """How much its entries may take."""
        return int(self.state[kernels.CAPACITY])

    def allow(self, allowed_bytes: int) -> None:
        """Bounds `held_bytes`, which must not be more already."""
        limit = max(0, min(allowed_bytes, self.size_bytes) - self.fixed_bytes) // 8 * 8
        self.state[kernels.LIMIT], self.state[kernels.CAPACITY] = limit, int(limit * (1 - SLACK_SHARE))

    def bytes_for(self, more: int) -> int:
        """What has to be allowed for entries of so many bytes more."""
        return self.fixed_bytes + int((self.live_bytes + more) / (1 - SLACK_SHARE)) + 16

    @property
    def entries(self) -> int:
        return int(self.state[kernels.ENTRIES])

    @property
    def rows(self) -> int:
        return int(self.state[kernels.ROWS])

    @property
    def evictions(self) -> int:
        return int(self.state[kernels.EVICTIONS])

    @property
    def switched(self) -> int:
        """Master rows that came in so far."""
        return int(self.state[kernels.SWITCHED])

    # -- answers -----------------------------------------------------------------------------------------

    def probe(self, keys: KeyBatch, start: int, misses_max: int) -> Answers:
        records = np.empty(len(keys) - start, np.int64)
        probed, present, absent, nulls = answering.probe(
            self.place, self.fixed, keys.prefix, keys.valid, keys.hashes, keys.offsets, keys.data_address,
            start, misses_max, records,
        )  # fmt: skip
        return Answers(entries=records[:probed], present=present, absent=absent, nulls=nulls, probes=probed)

    def pairs(self, answers: Answers, kind: JoinKind, limit: ChunkLimit) -> Iterator[Pairs]:
        state = np.zeros(3, np.int64)
        while state[0] < answers.entries.size:
            index, rows = np.empty(limit.pairs, np.int64), np.empty(limit.pairs, np.int64)
            filled = answering.pairs(
                self.place, answers.entries, self.fixed, *self.layout.kernel_shape,
                kind.every_match, kind.once, kind.absent, limit.pair_bytes, limit.bytes, state, index, rows,
            )  # fmt: skip
            if filled:
                yield Pairs(stream_index=index[:filled], row_at=rows[:filled])

    # -- coming and going --------------------------------------------------------------------------------

    def entry_bytes(self, keys: KeyBatch, body_bytes: I64) -> I64:
        """The arena's part of entries with rows of so many bytes each."""
        head = 16 if self.fixed else 12 + np.diff(keys.offsets)
        return np.asarray((head + body_bytes + 3) // 4 * 4, np.int64)

    def settle(
        self,
        newcomers: I64,
        keys: KeyBatch,
        counts: I64,
        row_sizes: I64,
        columns: list[pa.Array],
    ) -> None:
        """Stores the keys for which a policy made a record, with their rows."""
        row_at = np.empty(row_sizes.size, np.int64)
        placed = kernels.settle(
            self.place,
            newcomers,
            self.fixed,
            keys.prefix,
            keys.offsets,
            keys.data_address,
            counts,
            row_sizes,
            row_at,
        )
        if placed:
            if placed < row_at.size:
                kept = pa.array(np.repeat(newcomers > 0, counts))
                columns = [column.filter(kept) for column in columns]
            self.layout.encode(columns, row_at[:placed])

    def compact(self) -> None:
        kernels.compact(self.place, _NOBODY)

    def return_memory(self) -> None:
        """Gives the system back what is free between arena and records."""
        page = mmap.PAGESIZE
        first = -(-int(self.state[kernels.TAIL]) // page) * page
        records = int(kernels.RECORD_BYTES * self.state[kernels.RECORDS])
        stop = (self._bytes.size - records) // page * page
        if stop > first:
            self._memory.madvise(mmap.MADV_DONTNEED, first, stop - first)

    @property
    def is_crowded(self) -> bool:
        """Would probes be faster with more buckets?"""
        return self.entries > 2 * self._buckets.size

    def grow_buckets(self, hidden: int = -1) -> bool:
        """Twice as many, if what is allowed has room for them. Probes are not to find the list `hidden`."""
        allowed = int(self.state[kernels.LIMIT]) + self.fixed_bytes
        more = 2 * self._buckets.nbytes  # the old ones are there until the new ones are filled
        if self.held_bytes + more > allowed or self.bytes_for(0) + more > allowed:
            return False
        self._buckets = np.zeros(2 * self._buckets.size, np.uint32)
        self._set_place()
        self.allow(allowed)
        kernels.rehash(self.place, hidden)
        return True

    def check_invariants(self, *, hidden: int = -1) -> None:
        """AssertionError if it does not hold together; probes are not to find the list `hidden`."""
        flaw = proving.flaw(self.place, self.fixed, *self.layout.kernel_shape)
        assert flaw == 0, f"the table of the front stage does not hold together ({flaw})"
        behind = kernels.length(self.place, hidden) if hidden >= 0 else 0
        assert proving.chained(self.place) == self.entries - behind
        assert self.held_bytes <= self.size_bytes

    def close(self) -> None:
        """The addresses must not be used any more."""
        self._bytes = np.zeros(0, np.uint8)
        self.state[:] = 0
        self._buckets[:] = 0


_NOBODY: npt.NDArray[np.int64] = np.zeros(0, np.int64)
