"""The exchangeable parts of the one loop. Every algorithm is a choice of these.

All parts of one join live in one task and one thread; none is shared. A part reserves its bytes from the
join's `MemoryBudget` before it allocates them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import is_identity, row_sizes
from semistream.core.keys import KeyBatch, KeyEncoder
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class JoinKind:
    """What the output holds: one row per pair, or each matched stream row once; unmatched rows or not."""

    name: str
    every_match: bool
    once: bool
    absent: bool

    @property
    def needs_rows(self) -> bool:
        """Semi and anti joins only ask whether a key exists."""
        return self.every_match


JOIN_KINDS = {
    kind.name: kind
    for kind in (
        JoinKind(name="inner", every_match=True, once=False, absent=False),
        JoinKind(name="left", every_match=True, once=False, absent=True),
        JoinKind(name="semi", every_match=False, once=True, absent=False),
        JoinKind(name="anti", every_match=False, once=False, absent=True),
    )
}


# What follows is made anew for every step or batch. It is not to be changed either, but a frozen dataclass takes more
# than twice as long to make.

MISS = 0
NULL_KEY = -1


@dataclass(kw_only=True, eq=False, slots=True)
class Answers:
    """What the front stage knows of the keys of some rows in a row: MISS, NULL_KEY, or an entry that it can turn
    into pairs.

    `present` rows are known to match, `absent` rows are known not to, `nulls` have a null key. `probes` rows were looked
    up to know it, which takes time; none where nothing can be found.
    """

    entries: I64
    present: int
    absent: int
    nulls: int
    probes: int

    @property
    def misses(self) -> int:
        return self.entries.size - self.present - self.absent - self.nulls


PAIR_BYTES = 16  # an index and an address
CHUNK_PAIRS_MAX = 16384


class StreamRows(Protocol):
    """Rows of the stream, by number."""

    @property
    def pair_bytes(self) -> I64:
        """What an output row takes beside its master row, for each of these rows."""

    def take(self, index: I64) -> pa.RecordBatch: ...

    def numbers(self, position: int, index: I64) -> I64:
        """Of one column, of 64-bit integers without nulls."""


class BatchRows:
    """The rows of one batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    @cached_property
    def pair_bytes(self) -> I64:
        return row_sizes(self._batch) + PAIR_BYTES

    def take(self, index: I64) -> pa.RecordBatch:
        whole = index.size == self._batch.num_rows and is_identity(index)
        return self._batch if whole else self._batch.take(pa.array(index))

    def numbers(self, position: int, index: I64) -> I64:
        return self._batch.column(position).to_numpy()[index]


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrivals:
    """A batch of the stream with its keys. `shards_of` says where in R the keys of some rows are."""

    batch: pa.RecordBatch
    keys: KeyBatch
    key_positions: tuple[int, ...]
    encoder: KeyEncoder
    shards: int

    @cached_property
    def row_bytes(self) -> float:
        """The average row's, with its key; counted as each row's is, so that no room expects more rows than it takes."""
        return (int(row_sizes(self.batch).sum()) + self.keys.nbytes) / max(1, self.batch.num_rows)

    def shards_of(self, index: I64) -> npt.NDArray[np.int32]:
        if self.shards == 1:
            return np.zeros(index.size, np.int32)
        if index.size < 1024:  # so few that taking their keys costs more than hashing everyone's once
            return self._all_shards[index]
        picked = pa.array(index)
        columns = [self.batch.column(position).take(picked) for position in self.key_positions]
        return self.encoder.shards(columns, self.shards)

    @cached_property
    def _all_shards(self) -> npt.NDArray[np.int32]:
        columns = [self.batch.column(position) for position in self.key_positions]
        return self.encoder.shards(columns, self.shards)


@dataclass(kw_only=True, eq=False, slots=True)
class ChunkLimit:
    """How large one output batch may grow: `bytes` in all, of which a pair takes `pair_bytes` of its stream
    row beside its master row. A single pair may exceed it."""

    bytes: int
    pair_bytes: I64

    @property
    def pairs(self) -> int:
        """No output batch has more rows than this."""
        return max(1, min(CHUNK_PAIRS_MAX, self.bytes // PAIR_BYTES))

    def starting_at(self, row: int) -> ChunkLimit:
        """The same for rows counted from `row` on."""
        return ChunkLimit(bytes=self.bytes, pair_bytes=self.pair_bytes[row:]) if row else self


@dataclass(kw_only=True, eq=False, slots=True)
class Pairs:
    """Output rows: stream row `stream_index[i]` with the master row at `row_at[i]` (0: without one).

    The addresses hold until the part that gave them is called again.
    """

    stream_index: I64
    row_at: I64


@dataclass(kw_only=True, eq=False, slots=True)
class Waiting:
    """Who waits, by key: distinct keys, and the rows `order[starts[k]:starts[k + 1]]` of `rows` wait for key k,
    which is in the table's shard `shards[k]`. Good until the room is asked again."""

    rows: StreamRows
    keys: KeyBatch
    shards: npt.NDArray[np.int32]
    order: I64
    starts: I64

    @property
    def sightings(self) -> I64:
        """f of the papers: how many stream rows wait for each key."""
        return self.starts[1:] - self.starts[:-1]


@dataclass(kw_only=True, eq=False, slots=True)
class Matches:
    """What one read of R brought for the waiting keys first_key..stop_key-1, described by arrays of that length.

    counts[j] master rows, one after the other in `row_at`, belong to key first_key + j; the key had before[j]
    others earlier, while the same rows waited. `whole[j]`: these are all the rows that R has of the key, which
    may be none. `leaving[j]`: those who wait for the key are served now, and gone; the others will meet more of R.
    """

    waiting: Waiting
    first_key: int
    counts: I64
    row_at: I64
    before: I64
    whole: npt.NDArray[np.bool_]
    leaving: npt.NDArray[np.bool_]

    @property
    def stop_key(self) -> int:
        return self.first_key + self.counts.size

    @property
    def keys(self) -> KeyBatch:
        every, first, stop = self.waiting.keys, self.first_key, self.stop_key
        return every if stop - first == len(every) else every.slice(first, stop)

    @property
    def sightings(self) -> I64:
        """f of the papers: how many stream rows wait for each of these keys."""
        starts = self.waiting.starts[self.first_key : self.stop_key + 1]
        return starts[1:] - starts[:-1]


class FrontStage(Protocol):
    """H_R: answers rows for frequent keys without reading R. Soft: forgetting it changes no output row."""

    @property
    def layout(self) -> RowLayout:
        """The layout of the rows it hands out."""

    def probe(self, keys: KeyBatch, start: int, misses_max: int) -> Answers:
        """Looks up the rows start, start + 1, ... until misses_max of them missed or all are looked up."""

    def pairs(self, answers: Answers, kind: JoinKind, limit: ChunkLimit) -> Iterator[Pairs]:
        """The output rows of the answers, as many at a time as the limit allows; row 0 is the first of the
        answers. They must be consumed before `admit`."""

    def admit(self, matches: Matches, rows: MasterRows) -> None:
        """Is shown every match, with the frequency of its key; takes the rows of whole keys if they are worth it."""

    def adapt(self, cycles: int) -> None:
        """Called after each read of R, which was read through `cycles` times so far: ages frequencies, makes room."""

    def report(self, metrics: JoinMetrics) -> None:
        """Writes what it holds into the metrics."""

    def check_invariants(self) -> None: ...

    def close(self) -> None: ...


class WaitingRoom(Protocol):
    """H_S and the queue: stream rows that missed. Every row that is put leaves once: with `take`, or served by the
    access path that the room belongs to."""

    @property
    def count(self) -> int: ...

    def space(self, row_bytes: float) -> int:
        """How many more rows of this size it takes before R has to be read; at least one if nobody waits.

        `put` takes no fewer, if they all are of this size; rows of a batch whose average it is may be wider."""

    def put(self, arrivals: Arrivals, index: I64) -> int:
        """Takes the first n of these rows and returns n; less than all means: R has to be read now."""

    def take(self) -> Waiting | None:
        """Everyone who waits, in (shard, key) order, leaving the room empty; None if nobody does."""

    def settle(self) -> None:
        """Called when nobody uses rows that left any more, nor any batch whose rows were put: what is kept of
        them is put together anew."""

    def check_invariants(self) -> None: ...


class AccessPath(Protocol):
    """How R is read for those who wait in its room."""

    @property
    def layout(self) -> RowLayout:
        """The layout of the rows it finds."""

    @property
    def cycles(self) -> int:
        """How often it has read R through."""

    def step(self) -> Iterator[Matches]:
        """Reads some of R, and shows it to those who wait. Addresses of one window hold until the next one.

        Repeated steps without arrivals empty the room."""

    def close(self) -> None: ...


class MasterRows(Protocol):
    """Reads the join's columns out of rows in the layout of the access path."""

    def decode(self, row_at: I64) -> list[pa.Array]: ...

    def sizes(self, row_at: I64) -> I64:
        """The bytes that each row takes where it is stored, which may hold more columns than the join's."""
