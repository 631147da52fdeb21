"""Joins in the stream's order, checked while they run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from tests.oracle import bag

from semistream.core.metrics import JoinMetrics
from semistream.core.ordered import OrderedJoin
from semistream.joins import RunningJoin, minimum_task_bytes, resolve_shape, start_join
from semistream.master_table.contract import Table


def start_ordered(
    table: Table, stream: pa.Schema, *, how: str = "inner", memory_bytes: int | None = None, **start: Any
) -> RunningJoin:
    """With the least memory, if nothing is said of it."""
    shape = resolve_shape(stream, table, on=list(table.key), how=how, columns=None, suffix="_m")
    algorithm, shards = start.get("algorithm", "adaptive"), list(range(table.shards))
    least = minimum_task_bytes(table, shards, algorithm, start.get("front_stage"), ordered=True)
    return start_join(table, shape, memory_bytes=memory_bytes or least, ordered=True, **start)


def ordered_lookup(
    table: Table, stream: pa.Table, *, batch_rows: int = 1 << 20, **start: Any
) -> tuple[Counter[tuple[object, ...]], JoinMetrics]:
    """The bag of rows of one join, and its final metrics. The stream's last column counts its rows."""
    out: list[pa.RecordBatch] = []
    with start_ordered(table, stream.schema, **start) as join:
        loop = join.loop
        assert isinstance(loop, OrderedJoin)
        for batch in stream.to_batches(max_chunksize=batch_rows):
            out.extend(join.push(batch))
            loop.check_invariants()
        out.extend(join.flush())
        metrics = join.finish()
        assert join.budget.by_name()["ordering"] >= loop.held_bytes_peak
        names = join.loop._names  # type: ignore[union-attr]
    numbers: list[int] = []
    for batch in out:
        assert batch.schema.names == names
        batch.validate(full=True)
        numbers += batch.column(stream.num_columns - 1).to_pylist()
    assert numbers == sorted(numbers)
    return bag(out), metrics
