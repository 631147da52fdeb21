"""What SSIJ and the partition-based join have in common: virtual tables, growth, what they allocate."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.oracle import bag, joined
from tests.page_joins import OUTPUT_BYTES, run, shape_of, start

from semistream.core.contracts import JOIN_KINDS
from semistream.front_stage.pages import page_cache_bytes
from semistream.master_table.builder import build_store
from semistream.master_table.virtual import VirtualTable, VirtualTableConfig

ALGORITHMS = ["ssij", "partitioned"]


def sizes(table: Any, slots: int, waiting_bytes: int = 200_000) -> dict[str, int]:
    cache_bytes = page_cache_bytes(table.pages, table.page_bytes, slots=slots, shards=table.shards)
    return {"cache_bytes": cache_bytes, "waiting_bytes": waiting_bytes}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("how", sorted(JOIN_KINDS))
def test_a_virtual_table_is_joined_like_any_other(algorithm: str, how: str) -> None:
    table = VirtualTable(VirtualTableConfig(rows=3000, rows_per_key=3, key_stride=2, page_bytes=512))
    master = table.rows_at(np.arange(3000))
    keys = np.minimum(np.random.default_rng(2).zipf(1.3, 5000), 2200) - 1
    stream = pa.table({"key": keys, "id": np.arange(keys.size)})
    found, metrics = run(algorithm, table, stream, how=how, batch_rows=500, **sizes(table, 30))
    assert found == joined(stream, master, stream_key=["key"], master_key=["key"], how=how)
    assert metrics.hits > 1000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_table_may_grow_while_it_is_joined(algorithm: str) -> None:
    """Each batch is joined with the table of its time: an absence is not remembered beyond that."""
    table = VirtualTable(VirtualTableConfig(rows=300, rows_per_key=3, key_stride=2, page_bytes=512))
    stream = pa.table({"key": pa.array(range(1200))})
    batch = stream.to_batches()[0]
    running = start(algorithm, table, shape_of(table, stream.schema, "left"), **sizes(table, 20))
    with running:
        for _ in range(4):
            master = table.rows_at(np.arange(table.rows))
            out = [*running.push(batch), *running.flush()]
            assert bag(out) == joined(stream, master, stream_key=["key"], master_key=["key"], how="left")
            table.append(333)
        assert running.finish().hits > 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_growing_in_the_middle_of_a_read_breaks_nothing(algorithm: str) -> None:
    """What was there when a key came is found; what came meanwhile is found whole or not at all."""
    table = VirtualTable(VirtualTableConfig(rows=3003, rows_per_key=3, page_bytes=512))
    stream = pa.table({"key": pa.array(range(2000))})
    running = start(algorithm, table, shape_of(table, stream.schema), **sizes(table, 5))
    rows: list[int] = []
    with running:
        for out in itertools.chain(running.push(stream.to_batches()[0]), running.flush()):
            rows += out.column("row").to_pylist()
            table.append(30)
        running.finish()
    assert set(range(3003)) <= set(rows)
    assert len(rows) == len(set(rows))
    assert set(np.unique(np.array(rows) // 3, return_counts=True)[1].tolist()) == {3}


@pytest.mark.parametrize("algorithm", ["ssij", "partitioned"])
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_what_is_allocated_fits_the_budget(tmp_path: Path, algorithm: str, kind: str) -> None:
    """NumPy and Arrow together, beside the batch that is pushed and the output being handed out."""
    numbers = np.random.default_rng(3).integers(0, 30_000, 50_000)
    keys = pa.array(numbers) if kind == "int64" else pa.array([f"customer {n:09d}" for n in numbers])
    distinct = keys.unique()
    master = pa.table({"k": distinct, "v": pa.array(["v" * 60] * len(distinct))})
    table = build_store(master, tmp_path / "s", key="k", page_size=1024)
    shape = shape_of(table, pa.schema([("k", keys.type)]))
    batches = pa.table({"k": keys}).to_batches(max_chunksize=4000)
    batch_bytes = max(3 * batch.nbytes + 80 * batch.num_rows for batch in batches)

    def go(*, measured: bool) -> tuple[int, int]:
        peak = 0
        if measured:
            tracemalloc.start()
        arrow_before = pa.total_allocated_bytes()
        running = start(algorithm, table, shape, pages=20, **sizes(table, 900, waiting_bytes=1 << 20))
        with running:
            held = running.budget.held_bytes
            for batch in batches:
                for _ in running.push(batch):
                    peak = max(peak, pa.total_allocated_bytes() - arrow_before)
            for _ in running.flush():
                peak = max(peak, pa.total_allocated_bytes() - arrow_before)
            metrics = running.finish()
            assert metrics.hits > 1000
        if measured:
            peak += tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return peak, max(metrics.budget_peak_bytes, held)

    go(measured=False)  # compiles the kernels
    peak, reserved = go(measured=True)
    assert reserved > 900 * 1024 + OUTPUT_BYTES
    assert peak <= reserved + batch_bytes
