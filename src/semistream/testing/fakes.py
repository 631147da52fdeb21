"""Master rows in memory, and keys that wait, for suites that test one part of the loop alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from semistream.core.arrow import address_of
from semistream.core.contracts import I64, BatchRows, Matches, Waiting
from semistream.core.keys import KeyBatch, KeyEncoder
from semistream.core.rows import RowLayout

Row = tuple[object, ...]


def key_column(numbers: Sequence[int | None], *, fixed: bool) -> pa.Array:
    """Keys that stand for numbers: themselves, or texts of different length with common beginnings."""
    if fixed:
        return pa.array(numbers, pa.int64())
    texts = [None if n is None else "key " * (n % 4) + chr(97 + n % 7) + str(n) for n in numbers]
    return pa.array(texts, pa.string())


def encode_keys(numbers: Sequence[int | None], *, fixed: bool) -> KeyBatch:
    column = key_column(numbers, fixed=fixed)
    return KeyEncoder([column.type]).encode([column])


def waiting_for(sightings: Mapping[int, int], *, fixed: bool) -> tuple[Waiting, list[int]]:
    """`sightings[n]` stream rows wait for key n; and the keys in the order in which they are matched."""
    numbers = list(sightings)
    keys = encode_keys(numbers, fixed=fixed)
    order = keys.sort_order()
    ordered = [numbers[i] for i in order.tolist()]
    starts = np.concatenate([[0], np.cumsum([sightings[n] for n in ordered])]).astype(np.int64)
    waiting = Waiting(
        rows=BatchRows(pa.record_batch({"row": np.arange(starts[-1], dtype=np.int64)})),
        keys=keys.take(order),
        shards=np.zeros(len(numbers), np.int32),
        order=np.arange(starts[-1], dtype=np.int64),
        starts=starts,
    )
    return waiting, ordered


class RowsInMemory:
    """A master table as Python rows: `MasterRows` for whoever asks, and the matches of keys."""

    def __init__(self, schema: pa.Schema, rows: Mapping[int, Sequence[Row]]) -> None:
        self.layout = RowLayout(schema, 4)
        flat = [row for key in rows for row in rows[key]]
        columns = [pa.array([row[i] for row in flat], field.type) for i, field in enumerate(schema)]
        sizes = self.layout.sizes(columns, len(flat))
        self._memory = np.zeros(int(sizes.sum()) + 8, np.uint8)
        row_at = address_of(self._memory) + np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.layout.encode(columns, row_at[: len(flat)])
        ends = np.cumsum([len(rows[key]) for key in rows]).tolist()
        self._row_at = {
            key: row_at[end - len(rows[key]) : end].tolist() for key, end in zip(rows, ends, strict=True)
        }

    def decode(self, row_at: I64) -> list[pa.Array]:
        return self.layout.decode(row_at)

    def sizes(self, row_at: I64) -> I64:
        return self.layout.sizes_at(row_at)

    def matches(self, waiting: Waiting, ordered: Sequence[int], window_rows: int) -> Iterator[Matches]:
        """The rows of the keys, at most `window_rows` at a time, as an access path hands them out that serves
        everyone at once. A key whose rows do not come all in one window is not whole, and leaves with the last."""
        pending = [(position, at) for position, key in enumerate(ordered) for at in self._row_at.get(key, [])]
        total = np.bincount([position for position, _ in pending], minlength=len(ordered))
        shown, first = np.zeros(len(ordered), np.int64), 0
        for start in range(0, max(1, len(pending)), window_rows):
            window = pending[start : start + window_rows]
            rest = pending[start + window_rows :]
            stop = window[-1][0] + 1 if rest else len(ordered)
            unfinished = bool(rest) and rest[0][0] == stop - 1
            counts = np.bincount([p - first for p, _ in window], minlength=stop - first).astype(np.int64)
            before = shown[first:stop].copy()
            shown[first:stop] += counts
            yield Matches(
                waiting=waiting,
                first_key=first,
                counts=counts,
                row_at=np.array([at for _, at in window], np.int64),
                before=before,
                whole=counts == total[first:stop],
                leaving=before + counts == total[first:stop],
            )
            first = stop - unfinished


class EvenShard:
    """A shard that nobody reads from: only where keys would be. Words are spread evenly over its pages; of other
    keys, the first byte decides."""

    def __init__(self, pages: int) -> None:
        self.pages = self.rows = pages
        self.info = self.fences = self

    def locate(self, keys: KeyBatch) -> tuple[I64, I64]:
        share = keys.prefix.astype(np.float64) / 2.0**64
        first = np.minimum((share * self.pages).astype(np.int64), self.pages - 1)
        return first, first
