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

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import JOIN_KINDS, BatchRows, Matches, Waiting
from semistream.core.keys import KeyEncoder
from semistream.front_stage.page_columns import PageColumns
from semistream.front_stage.pages import PageCache, page_cache_bytes
from semistream.master_table.builder import build_store
from semistream.master_table.virtual import VirtualTable, VirtualTableConfig
from semistream.testing.fakes import RowsInMemory

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


# -- the page cache of a table that grows ------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("slots", [8, 20])
def test_pages_that_a_table_got_are_cached_too(algorithm: str, slots: int) -> None:
    """Their counters cost some of the slots where the cache is small."""
    table = VirtualTable(VirtualTableConfig(rows=300, rows_per_key=3, key_stride=2, page_bytes=512))
    settings = sizes(table, slots)
    old_pages = table.pages
    running = start(algorithm, table, shape_of(table, pa.schema([("key", pa.int64())])), **settings)

    def drained(keys: list[int]) -> list[int]:
        batch = pa.record_batch({"key": pa.array(keys, pa.int64())})
        out = [*running.push(batch), *running.flush()]
        running.check_invariants()
        assert running.cache._reservation.size_bytes <= settings["cache_bytes"]
        return sorted(row for each in out for row in each.column("row").to_pylist())

    with running:
        drained(list(range(0, 200, 2)))
        table.append(900)
        newest = [2 * (table.rows // 3 - 1)] * 9
        rows = sorted([table.rows - 3, table.rows - 2, table.rows - 1] * 9)
        assert drained(newest) == rows  # read; from now on its pages are counted
        assert drained(newest) == rows
        assert drained(newest) == rows
        assert max(running.cache.cached_pages[0]) >= old_pages
        before, hits = running.metrics.pages_read, running.metrics.hits
        assert drained(newest) == rows
        assert running.metrics.pages_read == before
        assert running.metrics.hits == hits + 9


def test_a_cache_keeps_the_most_useful_pages_and_all_counters_when_tables_grow() -> None:
    tables = [VirtualTable(VirtualTableConfig(rows=160, page_bytes=512, seed=seed)) for seed in (1, 2)]
    each = tables[0].config.rows_per_page
    size_bytes = page_cache_bytes(2 * tables[0].pages, 512, slots=12, shards=2)
    budget = MemoryBudget(size_bytes)
    cache = PageCache(
        {number: table.open_shard(0) for number, table in enumerate(tables)},
        budget=budget,
        size_bytes=size_bytes,
        layout=PageColumns.of(tables[0].layout, (0, 1)),
        fixed=True,
    )

    def meet(number: int, pages: list[int]) -> None:
        """A stream row for the first key of each of these pages."""
        keys, count = KeyEncoder([pa.int64()]).encode([pa.array([page * each for page in pages])]), len(pages)
        waiting = Waiting(
            rows=BatchRows(pa.record_batch({"row": np.arange(count)})),
            keys=keys,
            shards=np.full(count, number, np.int32),
            order=np.arange(count),
            starts=np.arange(count + 1),
        )
        yes, no = np.ones(count, np.bool_), np.zeros(count, np.int64)
        matches = Matches(
            waiting=waiting, first_key=0, counts=np.ones(count, np.int64), row_at=no, before=no, whole=yes, leaving=yes
        )  # fmt: skip
        cache.admit(matches, RowsInMemory(tables[0].value_schema, {}))
        cache.adapt(0)

    favourites = {0: [1, 5, 7], 1: [0, 2]}
    for _ in range(5):
        for number, pages in favourites.items():
            meet(number, pages)
    for page in range(8, 30):
        meet(1, [page])
    slots = cache.slots
    for step in range(1, 9):
        tables[step % 2].append(each * 4 * step)
        meet(0, [1])
        cache.check_invariants()
        assert budget.held_bytes <= size_bytes
        for number, pages in favourites.items():
            assert set(pages) <= cache.cached_pages[number]
            assert [cache.utility(number, page) for page in pages if (number, page) != (0, 1)] == [5] * (
                len(pages) - (number == 0)
            )
        assert cache.utility(0, 1) == 5 + step
    assert 5 <= cache.slots < slots
    newest = tables[0].pages - 1
    for _ in range(3):
        meet(0, [newest])
    assert newest in cache.cached_pages[0]
    assert cache.utility(0, newest) == 3


def test_a_cache_without_room_for_more_counters_goes_on_with_the_old_pages() -> None:
    table = VirtualTable(VirtualTableConfig(rows=300, rows_per_key=3, key_stride=2, page_bytes=512))
    running = start("ssij", table, shape_of(table, pa.schema([("key", pa.int64())])), **sizes(table, 1))
    with running:
        for _ in range(3):
            for keys in ([0, 0, 0], [2 * (table.rows // 3 - 1)]):
                batch = pa.record_batch({"key": pa.array(keys, pa.int64())})
                out = [*running.push(batch), *running.flush()]
                assert sum(each.num_rows for each in out) == 3 * len(keys)
            table.append(30_000)
        assert running.cache.slots == 1
        assert running.finish().hits >= 6
