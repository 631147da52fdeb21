"""Small stores and joins over them, without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.oracle import bag

from semistream.core.metrics import JoinMetrics
from semistream.joins import minimum_task_bytes, resolve_shape, start_join
from semistream.master_table.page_store import MasterTable


def lookup(
    table: MasterTable,
    stream: pa.Table,
    *,
    how: str = "inner",
    memory_bytes: int | None = None,
    batch_rows: int = 1 << 20,
    **start: Any,
) -> tuple[Counter[tuple[object, ...]], JoinMetrics]:
    """The bag of rows of one join of `stream` with `table` on the table's key, and its final metrics."""
    shape = resolve_shape(stream.schema, table, on=list(table.key), how=how, columns=None, suffix="_m")
    memory = minimum_task_bytes(table, list(range(table.shards))) if memory_bytes is None else memory_bytes
    out: list[pa.RecordBatch] = []
    with start_join(table, shape, memory_bytes=memory, **start) as join:
        for batch in stream.to_batches(max_chunksize=batch_rows):
            out.extend(join.push(batch))
        out.extend(join.flush())
        metrics = join.finish()
    for batch in out:
        assert batch.schema.names == shape.output_schema.names
        batch.validate(full=True)
    return bag(out), metrics


def shard_files(store: Path) -> list[Path]:
    return sorted(store.glob("shards/*/*.pages"))


def flip(path: Path, at: int, mask: int = 1) -> None:
    """Changes bits of one byte in place, as a bad disk would."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ mask]))
