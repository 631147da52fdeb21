"""The exchangeable parts of the one loop. Every algorithm is a choice of these.

All parts of one join live in one task and one thread; none is shared. A part reserves its bytes from the
join's `MemoryBudget` before it allocates them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import row_sizes
from semistream.core.keys import KeyBatch
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


MISS = 0
NULL_KEY = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """What the front stage knows of each row's key: MISS, NULL_KEY, or an entry that it can turn into pairs.

    `present` rows are known to match, `absent` rows are known not to, `nulls` have a null key.
    """

    entries: I64
    present: int
    absent: int
    nulls: int

    @property
    def misses(self) -> int:
        return self.entries.size - self.present - self.absent - self.nulls


CHUNK_PAIRS_MAX = 16384
PAIR_BYTES = 16  # an index and an address


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkLimit:
    """How large one output batch may grow: `bytes` in all, of which a pair takes `pair_bytes` of its stream
    row beside its master row. A single pair may exceed it."""

    bytes: int
    pair_bytes: I64

    @property
    def pairs(self) -> int:
        """No output batch has more rows than this."""
        return max(1, min(CHUNK_PAIRS_MAX, self.bytes // int(self.pair_bytes.min(initial=PAIR_BYTES))))

    @classmethod
    def of(cls, limit_bytes: int, stream: pa.RecordBatch) -> ChunkLimit:
        """For output rows that repeat rows of `stream`."""
        return cls(bytes=limit_bytes, pair_bytes=row_sizes(stream) + PAIR_BYTES)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Output rows: stream row `stream_index[i]` with the master row at `row_at[i]` (0: without one).

    The addresses hold until the part that gave them is called again.
    """

    stream_index: I64
    row_at: I64


@dataclass(frozen=True, kw_only=True, eq=False)
class Waiting:
    """What a waiting room gives to be matched: distinct keys in (shard, key) order, and who waits for each.

    The rows `order[starts[k]:starts[k + 1]]` of `rows` wait for key k, which is in the table's shard
    `shards[k]`.
    """

    rows: pa.RecordBatch
    keys: KeyBatch
    shards: npt.NDArray[np.int32]
    order: I64
    starts: I64

    @property
    def sightings(self) -> I64:
        """f of the papers: how many stream rows wait for each key."""
        return np.diff(self.starts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Matches:
    """The master rows of the waiting keys first_key..stop_key-1, as far as they were read.

    counts[j] rows, one after the other in `row_at`, belong to key first_key + j. `continued`: the first
    key had rows before; `unfinished`: the last key has more to come. All other keys are complete.
    """

    first_key: int
    stop_key: int
    counts: I64
    row_at: I64
    continued: bool
    unfinished: bool


class FrontStage(Protocol):
    """H_R: answers rows for frequent keys without reading R. Soft: forgetting it changes no output row."""

    @property
    def layout(self) -> RowLayout:
        """The layout of the rows it hands out."""

    def probe(self, keys: KeyBatch) -> Answers: ...

    def pairs(self, answers: Answers, kind: JoinKind, limit: ChunkLimit) -> Iterator[Pairs]:
        """The output rows of the answers, as many at a time as the limit allows. They must be consumed before `admit`."""

    def admit(self, waiting: Waiting, matches: Matches, rows: MasterRows) -> None:
        """Offers the complete keys of `matches`, with the frequency that was seen; takes what is worth it."""

    def adapt(self) -> None:
        """Called after each drain: ages frequencies, makes room."""

    def report(self, metrics: JoinMetrics) -> None:
        """Writes what it holds into the metrics."""

    def check_invariants(self) -> None: ...

    def close(self) -> None: ...


class WaitingRoom(Protocol):
    """H_S and the queue: stream rows that missed."""

    def put(self, rows: pa.RecordBatch, keys: KeyBatch, shards: npt.NDArray[np.int32]) -> int:
        """Takes the first n rows it has room for and returns n; less than all means: drain now."""

    def take(self) -> Waiting | None:
        """Everyone who waits, leaving the room empty; None if nobody does."""

    @property
    def count(self) -> int: ...

    def check_invariants(self) -> None: ...


class AccessPath(Protocol):
    """How R is read for those who wait."""

    @property
    def layout(self) -> RowLayout:
        """The layout of the rows it finds."""

    def fetch(self, waiting: Waiting) -> Iterator[Matches]:
        """All rows of all keys, window by window. A window's addresses hold until the next one."""


class MasterRows(Protocol):
    """Reads the join's columns out of rows in the layout of the access path."""

    def decode(self, row_at: I64) -> list[pa.Array]: ...

    def sizes(self, row_at: I64) -> I64:
        """The bytes that each row takes where it is stored, which may hold more columns than the join's."""
