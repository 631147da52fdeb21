"""For contestants that find rows by key: each distinct key of a batch is asked for once."""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.peers.contract import OUTPUT_SCHEMA, Peer, Setting
from semistream.workloads.tables import KEY, TABLE_SCHEMA

I64 = npt.NDArray[np.int64]


class LookupPeer(Peer):
    """`lanes` threads share the distinct keys of a batch, in the order of the key; 1 for who has threads of his own."""

    def __init__(self, setting: Setting, *, lanes: int) -> None:
        super().__init__(setting)
        self.lanes = lanes
        self._pool = ThreadPoolExecutor(lanes)

    @abstractmethod
    def look_up(self, keys: I64, lane: int) -> pa.Table:
        """The rows of R with these keys, which rise, in any order: the columns of TABLE_SCHEMA. A lane has one caller."""

    def join(self, batch: pa.RecordBatch) -> pa.Table:
        keys, places = np.unique(batch.column(KEY).to_numpy(), return_inverse=True)
        parts = np.array_split(keys, self.lanes)
        if self.lanes == 1:
            pieces = [self.look_up(keys, 0)]
        else:
            pieces = list(self._pool.map(self.look_up, parts, range(self.lanes)))
        return expanded(batch, keys, places, pa.concat_tables(pieces))

    def close(self) -> None:
        self._pool.shutdown()


def expanded(batch: pa.RecordBatch, keys: I64, places: I64, found: pa.Table) -> pa.Table:
    """Every row of the batch with the found row of its key; `places` says which of `keys` each row has."""
    found = found.combine_chunks()
    found_keys = found[KEY].to_numpy()
    if np.array_equal(found_keys, keys):
        rows = places
    else:
        order = np.argsort(found_keys, kind="stable")
        at = np.minimum(np.searchsorted(found_keys, keys, sorter=order), max(0, found_keys.size - 1))
        rows_of_keys = order[at] if order.size else np.zeros(keys.size, np.int64)
        is_there = found_keys[rows_of_keys] == keys if order.size else np.zeros(keys.size, np.bool_)
        kept = is_there[places]
        rows = rows_of_keys[places[kept]]
        if not kept.all():
            batch = batch.filter(pa.array(kept))
    values = found.select([name for name in TABLE_SCHEMA.names if name != KEY]).take(pa.array(rows))
    columns = [*batch.columns, *values.columns]
    return pa.table(columns, names=OUTPUT_SCHEMA.names).cast(OUTPUT_SCHEMA)


def cents_of(balance: pa.Array) -> pa.Array:
    """decimal(15,2) as a whole number of cents, for who has no decimals."""
    words = np.frombuffer(balance.buffers()[1], np.int64)[2 * balance.offset :: 2]
    return pa.array(words[: len(balance)])


def balance_of(cents: pa.ChunkedArray) -> pa.Array:
    """The inverse: Arrow's decimals are 128 bits, low word first."""
    low = cents.to_numpy()
    words = np.empty((low.size, 2), np.int64)
    words[:, 0], words[:, 1] = low, low >> 63
    return pa.Array.from_buffers(pa.decimal128(15, 2), low.size, [None, pa.py_buffer(words)])
