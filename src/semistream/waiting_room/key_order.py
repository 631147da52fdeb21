"""Rows that leave together, by shard and key."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.contracts import BatchRows, Waiting
from semistream.core.keys import KeyBatch


def in_key_order(rows: pa.RecordBatch, keys: KeyBatch, shards: npt.NDArray[np.int32]) -> Waiting:
    """The same key is in one shard only, so runs of equal keys never span shards."""
    order = keys.sort_order()
    if shards.size and shards.min() != shards.max():
        order = order[np.argsort(shards[order], kind="stable")]
    in_order, shards_in_order = keys.take(order), shards[order]
    starts = in_order.starts()
    return Waiting(
        rows=BatchRows(rows),
        keys=in_order.take(starts),
        shards=shards_in_order[starts],
        order=order,
        starts=np.append(starts, keys.prefix.size),
    )
