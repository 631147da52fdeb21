"""What a join has to give, found in the plainest way: the table is read once, and rows are put together by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from semistream.peers.contract import OUTPUT_SCHEMA
from semistream.workloads.tables import KEY, TABLE_SCHEMA


def expected_rows(batch: pa.RecordBatch, table_files: Sequence[Path]) -> pa.Table:
    """The inner join of a batch with the table, whose keys are distinct: sorted by key and stream columns."""
    wanted = pc.field(KEY).isin(pc.unique(batch.column(KEY)))
    table = ds.dataset([str(path) for path in table_files], schema=TABLE_SCHEMA).to_table(filter=wanted)
    row_of_key = {key: row for row, key in enumerate(table[KEY].to_pylist())}
    pairs = [
        (at, row_of_key[key]) for at, key in enumerate(batch.column(KEY).to_pylist()) if key in row_of_key
    ]
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    rows = table.take(pa.array(right)).drop_columns([KEY])
    joined = pa.table([*batch.take(pa.array(left)).columns, *rows.columns], names=OUTPUT_SCHEMA.names)
    order = [(name, "ascending") for name in (KEY, "amount", "quantity")]
    return joined.cast(OUTPUT_SCHEMA).sort_by(order).combine_chunks()
