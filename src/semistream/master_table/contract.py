"""What the join asks of a master table R, however its pages come about.

    Table --open_shard--> TableShard --fences.locate--> page numbers --fetch--> addresses of pages

A table that gives pages in the format of `_page_kernels` is joined like any other: access paths know these
protocols and the page format, nothing else. Tables are opened by whoever composes a join, shards by the part
that reads them; a shard belongs to one task and one thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.keys import KeyBatch, KeyEncoder
from semistream.core.rows import RowLayout
from semistream.errors import CorruptionError, StoreError

I64 = npt.NDArray[np.int64]


class FenceIndex(Protocol):
    """What stays in memory of a shard, to know which pages can hold a key."""

    @property
    def nbytes(self) -> int:
        """Memory it takes: part of the `fence_bytes` that a join reserves before it opens the shard."""

    def locate(self, keys: KeyBatch) -> tuple[I64, I64]:
        """(first page, last page) that can hold each of the sorted keys, as arrays of the caller's own.

        All rows of a key are in its range, however many pages they fill. last < first: the shard does not
        hold the key. A key that it does not hold may have a range too; its pages then prove it.
        """


class ShardSize(Protocol):
    """How large a shard is."""

    @property
    def pages(self) -> int: ...

    @property
    def rows(self) -> int: ...


class TableShard(Protocol):
    """Random and sequential access to the pages of one shard; page p of n is 0 <= p < n.

    Its memory: `fences.nbytes` from opening to `close`, and `buffer_bytes` from the first `fetch` on.
    """

    @property
    def seed(self) -> np.uint64:
        """What the checksums of its pages and rows start from; `_page_kernels.UNSEALED` if they have none."""

    @property
    def info(self) -> ShardSize:
        """The size now. A table that grows while it is read shows it here: whoever goes through all pages asks
        again. New pages come behind the last one; a page never changes, and none goes."""

    @property
    def fences(self) -> FenceIndex: ...

    @property
    def page_bytes(self) -> int: ...

    @property
    def pages_at_once(self) -> int:
        """How many pages one `fetch` can bring, at least one."""

    @property
    def is_mapped(self) -> bool:
        """Do addresses stay good over later fetches?"""

    @property
    def buffer_bytes(self) -> int:
        """The task's memory that fetching takes; 0 if the pages stand elsewhere: in the system's cache, or in the
        memory of a table that stands for a disk."""

    def prefetch(self, pages: I64) -> None:
        """Start reading these pages; returns without waiting. A hint: doing nothing is right, too."""

    def fetch(self, pages: I64) -> I64:
        """Where these pages (rising numbers, at most `pages_at_once`) are in memory, one address each.

        The bytes are the shard's, to be read only. They stay until the next `fetch`, or until `close` if
        `is_mapped`. They are not verified: whoever answers from a row checks its sum. CorruptionError if a
        page is not there.
        """

    def let_go(self) -> None:
        """The pages fetched last are not needed any more: gives `buffer_bytes` back until the next `fetch`."""

    def damaged(self, page: int, what: str = ...) -> CorruptionError:
        """The error to raise for a page whose bytes are not what they should be."""

    def close(self) -> None:
        """Ends the life of all addresses; may be called twice."""


class Table(Protocol):
    """One version of a master table: its columns, its size, and its shards."""

    @property
    def schema(self) -> pa.Schema:
        """All columns, the key columns first."""

    @property
    def key(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def pages(self) -> int: ...

    @property
    def page_bytes(self) -> int: ...

    @property
    def shards(self) -> int:
        """A row is in the shard `key_encoder.shards` names."""

    @property
    def version(self) -> int:
        """Rises when rows change; what was remembered of another version may be wrong."""

    @property
    def value_schema(self) -> pa.Schema:
        """The columns that are not part of the key: what a row holds beside its key."""

    @property
    def layout(self) -> RowLayout:
        """How the value columns stand in a row of a page."""

    @property
    def key_encoder(self) -> KeyEncoder: ...

    def fence_bytes(self, shards: list[int]) -> int:
        """Memory that the fences of these shards take while they are open."""

    def open_shard(self, shard: int) -> TableShard:
        """A reader of its own for the caller, who closes it. ConfigError if there is no such shard."""


def misplaced(shard: int, served: Iterable[int]) -> StoreError:
    """The error to raise for a row whose shard nobody here has open."""
    return StoreError(
        f"a row of shard {shard} came to a task that serves the shards {sorted(served)}.",
        hint="rows must be sent by xxhash64 of their key; please report this with your Spark version.",
    )
