"""SSIJ and the partition-based join put together from their parts, without `semistream.joins`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from tests.oracle import bag

from semistream.access_path.batched import BatchedIndexAccess
from semistream.access_path.partition import PartitionAccess
from semistream.access_path.planned import open_shards
from semistream.access_path.segments import DiskBuffer
from semistream.core.budget import MemoryBudget
from semistream.core.keys import KeyEncoder
from semistream.core.loop import JoinShape, SemiStreamJoin
from semistream.core.metrics import JoinMetrics
from semistream.core.shape import resolve_shape
from semistream.front_stage.page_columns import PageColumns
from semistream.front_stage.pages import PageCache
from semistream.master_table.contract import Table
from semistream.waiting_room.batch_room import BatchRoom
from semistream.waiting_room.input_buffer import InputBuffer
from semistream.waiting_room.partitioned_room import PartitionedRoom

OUTPUT_BYTES = 160 << 10  # at least a row as wide as the widest page of the tests


@dataclass(frozen=True, kw_only=True)
class PageJoin:
    """A running join and its parts."""

    join: SemiStreamJoin
    cache: PageCache
    path: Any
    room: Any
    metrics: JoinMetrics
    budget: MemoryBudget
    pending: InputBuffer

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for looked_up in self.pending.add(batch):
            yield from self.join.push(looked_up)

    def flush(self) -> Iterator[pa.RecordBatch]:
        for looked_up in self.pending.rest():
            yield from self.join.push(looked_up)
        yield from self.join.flush()

    def check_invariants(self) -> None:
        self.join.check_invariants()
        self.cache.check_invariants()

    def finish(self) -> JoinMetrics:
        self.cache.report(self.metrics)
        self.metrics.budget_peak_bytes = self.budget.peak_bytes
        self.metrics.budget_bytes = self.budget.total_bytes
        self.check_invariants()
        return self.metrics

    def __enter__(self) -> PageJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.cache.close()
        self.path.close()


def start(
    algorithm: str,
    table: Table,
    shape: JoinShape,
    *,
    cache_bytes: int,
    waiting_bytes: int,
    pending_bytes: int = 0,
    pages: int = 4,
    threshold_rows: int | None = None,
) -> PageJoin:
    """`pages` is the size of a partition."""
    shards = list(range(table.shards))
    # Fences, row addresses and buffers are at most a few per cent of this, for the tables of these tests.
    budget, metrics = MemoryBudget(cache_bytes + waiting_bytes + pending_bytes + (8 << 20)), JoinMetrics()
    fixed = table.key_encoder.fixed
    path: BatchedIndexAccess | PartitionAccess
    room: BatchRoom | PartitionedRoom
    if algorithm == "ssij":
        room = BatchRoom(budget, lambda: waiting_bytes)
        opened = open_shards(table, shards, budget)
        path = BatchedIndexAccess(table, opened, room, budget=budget, metrics=metrics)
    else:
        room = PartitionedRoom(budget, lambda: waiting_bytes, fixed=fixed, threshold_rows=threshold_rows)
        buffer = DiskBuffer(table, shards, room, buffer_pages=pages, budget=budget, metrics=metrics)
        path = PartitionAccess(buffer, room, layout=table.layout, pages=pages)
        opened = buffer.shards
    cache = PageCache(
        opened,
        budget=budget,
        size_bytes=cache_bytes,
        layout=PageColumns.of(table.layout, shape.value_positions),
        fixed=fixed,
    )
    budget.reserve("output", OUTPUT_BYTES)
    join = SemiStreamJoin(
        shape,
        encoder=KeyEncoder([shape.output_schema.field(i).type for i in shape.key_positions]),
        front_stage=cache,
        waiting_room=room,
        access_path=path,
        budget=budget,
        metrics=metrics,
        output_bytes=OUTPUT_BYTES,
    )
    return PageJoin(
        join=join,
        cache=cache,
        path=path,
        room=room,
        metrics=metrics,
        budget=budget,
        pending=InputBuffer(budget, pending_bytes),
    )


def shape_of(table: Table, stream: pa.Schema, how: str = "inner") -> JoinShape:
    return resolve_shape(stream, table, on=list(table.key), how=how, columns=None, suffix="_m")


def run(
    algorithm: str, table: Table, stream: pa.Table, *, how: str, batch_rows: int, **settings: Any
) -> tuple[Counter[tuple[object, ...]], JoinMetrics]:
    """The bag of rows of a whole join, whose parts hold together after every batch, and its metrics."""
    running = start(algorithm, table, shape_of(table, stream.schema, how), **settings)
    out: list[pa.RecordBatch] = []
    with running:
        for batch in stream.to_batches(max_chunksize=batch_rows):
            out.extend(running.push(batch))
            running.check_invariants()
        out.extend(running.flush())
        metrics = running.finish()
    return bag(out), metrics
