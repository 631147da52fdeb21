"""The stream rows that wait, as Arrow batches in the order of their arrival."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import row_sizes
from semistream.core.contracts import I64, PAIR_BYTES

MERGED_BYTES_MAX = 64 << 20  # well below what 32-bit offsets can address
SIZE_MAX_BYTES = (1 << 31) - 1
_NO_BYTES = np.zeros(0, np.int32)


class KeptRows:
    """`StreamRows` numbered from 0, the oldest kept; `origin` rows are gone before it.

    Batches are added whole and cut down later (`keep_of_chunk`), so that a row can wait while its batch is in use.
    Small neighbours are merged, so that there are few: a row is copied about log2(chunks) times.
    """

    def __init__(self) -> None:
        self.origin = 0
        self._chunks: list[pa.RecordBatch] = []
        self._sizes: list[npt.NDArray[np.int32]] = []
        self._table: pa.Table | None = None
        self._pair_bytes: npt.NDArray[np.int32] | None = None

    @property
    def rows(self) -> int:
        return sum(chunk.num_rows for chunk in self._chunks)

    @property
    def chunk_count(self) -> int:
        return len(self._chunks)

    @property
    def pair_bytes(self) -> I64:
        if self._pair_bytes is None:
            self._pair_bytes = np.concatenate([_NO_BYTES, *self._sizes])
        return self._pair_bytes  # type: ignore[return-value]  # narrower numbers do

    @property
    def last_sizes(self) -> npt.NDArray[np.int32]:
        """What each row of the last batch takes in the output, PAIR_BYTES included."""
        return self._sizes[-1]

    def take(self, index: I64) -> pa.RecordBatch:
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(index))
        return self._whole.take(pa.array(index)).combine_chunks().to_batches()[0]

    def numbers(self, position: int, index: I64) -> I64:
        if len(self._chunks) == 1:
            return self._chunks[0].column(position).to_numpy()[index]
        return self._whole.column(position).take(pa.array(index)).to_numpy()

    def append(self, batch: pa.RecordBatch) -> int:
        """Adds a batch behind the others; the number of its first row, counted with those that are gone."""
        first = self.origin + self.rows
        if self._chunks and not batch.schema.equals(self._chunks[0].schema):
            batch = batch.cast(self._chunks[0].schema)
        self._chunks.append(batch)
        self._sizes.append(np.minimum(row_sizes(batch) + PAIR_BYTES, SIZE_MAX_BYTES).astype(np.int32))
        self._changed()
        return first

    def chunk_range(self, chunk: int) -> tuple[int, int]:
        """The numbers of a chunk's rows, counted with those that are gone."""
        first = self.origin + sum(each.num_rows for each in self._chunks[:chunk])
        return first, first + self._chunks[chunk].num_rows

    def drop_before(self, number: int) -> None:
        """The rows before this one are gone; chunks without any other are let go."""
        while self._chunks and self.origin + self._chunks[0].num_rows <= number:
            self.origin += self._chunks[0].num_rows
            del self._chunks[0], self._sizes[0]
            self._changed()

    def keep_of_chunk(self, chunk: int, kept: I64) -> None:
        """Cuts a chunk down to some of its rows, given by their place in it; those behind it move up."""
        self._chunks[chunk] = self._chunks[chunk].take(pa.array(kept))
        self._sizes[chunk] = self._sizes[chunk][kept]
        if not kept.size:
            del self._chunks[chunk], self._sizes[chunk]
        self._changed()

    def merge(self) -> None:
        """Puts the last chunks together while they are of similar size."""
        while len(self._chunks) > 1 and self._chunks[-2].num_rows < 2 * self._chunks[-1].num_rows:
            last = self._chunks[-2:]
            if sum(chunk.nbytes for chunk in last) > MERGED_BYTES_MAX:
                return
            self._chunks[-2:] = [pa.concat_batches(last)]
            self._sizes[-2:] = [np.concatenate(self._sizes[-2:])]
            self._changed()

    @property
    def _whole(self) -> pa.Table:
        if self._table is None:
            self._table = pa.Table.from_batches(self._chunks)
        return self._table

    def _changed(self) -> None:
        self._table = self._pair_bytes = None
