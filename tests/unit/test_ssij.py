"""SSIJ: its three phases, and the page cache with its utility counters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracle import bag, joined
from tests.page_joins import PageJoin, run, shape_of, start
from tests.property.test_core_join import built, expected_of, mapping
from tests.stores import flip, shard_files
from tests.strategies import JoinCase, join_cases

from semistream.access_path.cyclic_scan import CyclicScan
from semistream.access_path.oldest_key import OldestKey
from semistream.access_path.segments import DiskBuffer
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import JOIN_KINDS
from semistream.core.loop import SemiStreamJoin
from semistream.core.metrics import JoinMetrics
from semistream.core.shape import resolve_shape
from semistream.errors import BudgetError, CorruptionError
from semistream.front_stage.page_columns import PageColumns
from semistream.front_stage.pages import POINTS_PER_SLOT, PageCache, page_cache_bytes
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.waiting_room.input_buffer import InputBuffer
from semistream.waiting_room.queue_room import QueueRoom

PAGE_BYTES = 512
ROWS = 1000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    master = pa.table({"k": pa.array(range(ROWS)), "v": pa.array([f"{i:030d}" for i in range(ROWS)])})
    path = tmp_path_factory.mktemp("ssij") / "s"
    return build_store(master, path, key="k", page_size=PAGE_BYTES)


SCHEMA = pa.schema([("k", pa.int64())])


def batch(keys: Iterable[int]) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(keys, pa.int64())}, schema=SCHEMA)


def slots_bytes(table: MasterTable, slots: int) -> int:
    return page_cache_bytes(table.pages, table.page_bytes, slots=slots, shards=table.shards)


def started(table: MasterTable, *, slots: int, waiting_bytes: int = 1 << 20, **more: Any) -> PageJoin:
    shape = shape_of(table, SCHEMA, more.pop("how", "inner"))
    return start(
        "ssij", table, shape, cache_bytes=slots_bytes(table, slots), waiting_bytes=waiting_bytes, **more
    )


def page_of(table: MasterTable, key: int) -> int:
    keys = table.key_encoder.encode([pa.array([key])])
    return int(table.open_shard(0).fences.locate(keys)[0][0])


def drained(join: PageJoin, keys: Iterable[int]) -> list[int]:
    """The keys of the output, those of one batch and its join phase."""
    out = [*join.push(batch(keys)), *join.flush()]
    return sorted(key for each in out for key in each.column(0).to_pylist())


# -- phases ------------------------------------------------------------------------------------------------


def test_pending_rows_wait_until_their_buffer_is_over_the_threshold_or_the_stream_ends() -> None:
    budget = MemoryBudget(1000)
    pending = InputBuffer(budget, 1000)
    assert budget.held_bytes == 1000
    small = batch(range(20))
    assert small.nbytes == 160
    assert [list(pending.add(small)) for _ in range(3)] == [[], [], []]
    assert pending.count == 60
    crossed = list(pending.add(small))
    assert [each.column(0).to_pylist() for each in crossed] == [[*range(20)] * 3, [*range(20)]]
    assert list(pending.rest()) == []
    assert list(pending.add(small)) == []
    assert [each.num_rows for each in pending.rest()] == [20]
    large = batch(range(500))
    assert [each is large for each in pending.add(large)] == [True]


def test_pending_rows_are_not_looked_up(table: MasterTable) -> None:
    join = started(table, slots=3, pending_bytes=1 << 10)
    assert list(join.push(batch([1, 2, 3]))) == []
    assert (join.pending.count, join.metrics.probes, join.room.count) == (3, 0, 0)
    assert drained(join, [4]) == [1, 2, 3, 4]
    assert (join.pending.count, join.metrics.rows_in) == (0, 4)


def test_online_rows_of_cached_blocks_are_joined_at_once_and_the_others_wait(table: MasterTable) -> None:
    join = started(table, slots=3)
    assert drained(join, [0]) == [0]
    assert (join.metrics.steps, join.metrics.pages_read) == (1, 1)
    out = [key for each in join.push(batch([0, 1, ROWS - 1, 0])) for key in each.column(0).to_pylist()]
    assert sorted(out) == [0, 0, 1]  # the first page's
    assert (join.metrics.hits, join.metrics.misses, join.room.count) == (3, 2, 1)
    assert join.metrics.steps == 1


def test_the_join_phase_begins_when_the_stream_buffer_is_over_its_threshold(table: MasterTable) -> None:
    join = started(table, slots=1, waiting_bytes=4000)
    waiting = []
    for first in range(0, 900, 9):
        assert all(each.num_rows for each in join.push(batch(range(first, first + 9))))
        waiting.append(join.room.count)
    assert join.metrics.steps == join.metrics.drains > 3
    # It grows to the same size again and again, and a join phase empties it.
    peaks = [before for before, after in pairwise(waiting) if after < before]
    assert len(peaks) > 3
    assert max(peaks) - min(peaks) <= 18


def test_the_join_phase_reads_each_needed_block_once_in_order_and_no_other(table: MasterTable) -> None:
    join = started(table, slots=1)
    rng = np.random.default_rng(4)
    keys = rng.integers(0, ROWS, 60).tolist()
    needed = sorted({page_of(table, key) for key in keys})
    stretches = sum(np.diff([-2, *needed]) > 1)
    fetched: list[int] = []
    shard = join.path.shards[0]
    fetch = shard.fetch
    shard.fetch = lambda pages: (fetched.extend(pages.tolist()), fetch(pages))[1]
    assert drained(join, keys) == sorted(keys)
    assert fetched[: len(needed)] == needed
    assert len(fetched) == len(needed) + 1  # and one that stays, copied from where it was read
    metrics = join.metrics
    assert (metrics.pages_read, metrics.bytes_read) == (len(needed), len(needed) * PAGE_BYTES)
    assert metrics.read_requests == metrics.random_reads == stretches
    assert (metrics.random_reads_overlapped, metrics.scans, metrics.lookups) == (0, 0, 1)
    assert metrics.probes == 2 * 60  # in the cached blocks, and in those read
    assert (metrics.appends, metrics.removals, metrics.steps) == (60, 60, 1)


def test_it_never_reads_through_whatever_is_needed(table: MasterTable) -> None:
    join = started(table, slots=1)
    for _ in range(20):
        drained(join, range(ROWS))
    assert join.metrics.scans == 0
    assert join.metrics.lookups == 20


def test_all_it_holds_is_reserved(table: MasterTable) -> None:
    join = started(table, slots=5, pending_bytes=600)
    held = join.budget.by_name()
    assert held["input buffer"] == 600
    assert held["disk buffer"] == PAGE_BYTES  # a mapped file needs none, but the papers' join does
    assert held["front stage"] == slots_bytes(table, 5)
    assert join.cache.slots == 5


# -- the page cache ----------------------------------------------------------------------------------------


def test_a_counter_grows_by_one_for_each_stream_row_the_block_answers(table: MasterTable) -> None:
    join = started(table, slots=2)
    first, last = page_of(table, 0), page_of(table, ROWS - 1)
    drained(join, [0, 0, 1, ROWS - 1])  # read
    assert (join.cache.utility(0, first), join.cache.utility(0, last)) == (3, 1)
    drained(join, [0, 1, 1, ROWS - 1])  # from memory
    assert (join.cache.utility(0, first), join.cache.utility(0, last)) == (6, 2)
    assert join.metrics.pages_read == 2
    assert join.cache.utility(0, page_of(table, 500)) == 0


def test_the_blocks_with_the_highest_counters_stay(table: MasterTable) -> None:
    join = started(table, slots=2)
    a, b, c = 0, 300, 600
    drained(join, [a] * 5 + [b] * 3 + [c])
    assert join.cache.cached_pages == {0: {page_of(table, a), page_of(table, b)}}
    drained(join, [c] * 2)  # 3 are not more than 3
    assert join.cache.cached_pages == {0: {page_of(table, a), page_of(table, b)}}
    drained(join, [c])
    assert join.cache.cached_pages == {0: {page_of(table, a), page_of(table, c)}}
    join.cache.check_invariants()


def test_hits_count_up_to_the_last_miss_that_was_let_in(table: MasterTable) -> None:
    join = started(table, slots=1)
    drained(join, [0])
    keys = table.key_encoder.encode([pa.array([0, 500, 0, 600, 0, 0])])
    before = join.cache.utility(0, 0)
    answers = join.cache.probe(keys, 0, 2)
    assert (answers.entries.size, answers.present, answers.misses) == (4, 2, 2)
    assert join.cache.utility(0, 0) == before + 2


def test_counters_are_halved_so_that_the_cache_follows_the_stream(table: MasterTable) -> None:
    join = started(table, slots=2)
    for _ in range(POINTS_PER_SLOT):
        drained(join, [0, 1, 0, 1])
    old = join.cache.utility(0, 0)
    assert old < 4 * POINTS_PER_SLOT
    for _ in range(POINTS_PER_SLOT):
        drained(join, [500, 900, 500, 900])
    assert join.cache.cached_pages == {0: {page_of(table, 500), page_of(table, 900)}}
    assert join.cache.utility(0, 0) < old


def test_most_rows_of_a_skewed_stream_are_answered_from_memory(table: MasterTable) -> None:
    rng = np.random.default_rng(5)
    weights = np.arange(1, ROWS + 1) ** -1.2
    keys = rng.choice(ROWS, 20_000, p=weights / weights.sum())
    join = started(table, slots=10, waiting_bytes=20_000)
    for at in range(0, keys.size, 1000):
        list(join.push(batch(keys[at : at + 1000])))
    best = float((weights / weights.sum())[: 10 * ROWS // table.pages].sum())
    assert join.metrics.hit_ratio > 0.9 * best


def test_a_key_whose_rows_span_pages_is_answered_if_all_of_them_are_there(tmp_path: Path) -> None:
    numbers = [1, 2, *[3] * 40, 4, 5]
    master = pa.table({"k": pa.array(numbers), "v": pa.array([f"{i:030d}" for i in range(len(numbers))])})
    many = build_store(master, tmp_path / "s", key="k", page_size=PAGE_BYTES)
    shard = many.open_shard(0)
    first, last = shard.fences.locate(many.key_encoder.encode([pa.array([3])]))
    span = int(last[0] - first[0] + 1)
    assert span >= 4
    for slots, answered in ((span, True), (span - 1, False)):
        join = started(many, slots=slots)
        for _ in range(3):
            assert drained(join, [3]) == [3] * 40
        assert (join.metrics.hits > 0) == answered
        join.cache.check_invariants()


@pytest.mark.parametrize("shards", [1, 3])
def test_absent_keys_are_answered_where_their_pages_prove_it(tmp_path: Path, shards: int) -> None:
    master = pa.table({"k": pa.array(range(0, 60, 2)), "v": pa.array(range(30))})
    even = build_store(master, tmp_path / "s", key="k", shards=shards, page_size=PAGE_BYTES)
    join = started(even, slots=even.pages, how="left")
    assert drained(join, range(60)) == list(range(60))
    before = join.metrics.pages_read
    assert drained(join, range(60)) == list(range(60))
    assert join.metrics.pages_read == before
    assert (join.metrics.hits, join.metrics.negative_hits) == (60, 30)
    metrics = join.finish()
    assert (metrics.front_stage_keys, metrics.front_stage_rows, metrics.switched) == (30, 30, 30)


def test_a_damaged_page_never_comes_in(tmp_path: Path) -> None:
    master = pa.table({"k": pa.array(range(100)), "v": pa.array([f"{i:030d}" for i in range(100)])})
    damaged = build_store(master, tmp_path / "s", key="k", page_size=PAGE_BYTES)
    # The last byte of the page is its first row's, which a lookup of another row does not read.
    flip(shard_files(tmp_path / "s")[0], 2 * PAGE_BYTES - 1)
    last_of_page = max(key for key in range(100) if page_of(damaged, key) == 1)
    with pytest.raises(CorruptionError, match="page 1 of the shard file"):
        drained(started(damaged, slots=2), [last_of_page])


def test_a_cache_without_room_for_a_page_says_what_one_takes(table: MasterTable) -> None:
    with pytest.raises(BudgetError, match="holds no page") as caught:
        start("ssij", table, shape_of(table, SCHEMA), cache_bytes=700, waiting_bytes=1000)
    assert "Hint:" in str(caught.value)


def test_only_the_columns_asked_for_come_out_in_their_order(tmp_path: Path) -> None:
    master = pa.table({"k": [1, 2], "a": ["x", "y"], "b": [10, 20], "c": [0.5, 1.5]})
    wide = build_store(master, tmp_path / "s", key="k", page_size=PAGE_BYTES)
    shape = resolve_shape(SCHEMA, wide, on="k", how="inner", columns=["c", "a"], suffix=None)
    join = start("ssij", wide, shape, cache_bytes=slots_bytes(wide, 1), waiting_bytes=1 << 16)
    for hits in (0, 2):
        out = [*join.push(batch([1, 2])), *join.flush()]
        assert bag(out) == {(1, (0.5).hex(), "x"): 1, (2, (1.5).hex(), "y"): 1}
        assert join.metrics.hits == hits
    assert isinstance(join.cache.layout, PageColumns)


# -- equality with the oracle ------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    case=join_cases(),
    how=st.sampled_from(sorted(JOIN_KINDS)),
    batch_rows=st.sampled_from([1, 3, 64, 1 << 20]),
    slots=st.sampled_from([1, 2, 5, 1000]),
    waiting_bytes=st.sampled_from([20_000, 1 << 20]),
    pending_bytes=st.sampled_from([0, 5000]),
    mapped=st.booleans(),
)
def test_ssij_equals_the_oracle(
    case: JoinCase,
    how: str,
    batch_rows: int,
    slots: int,
    waiting_bytes: int,
    pending_bytes: int,
    mapped: bool,
) -> None:
    with tempfile.TemporaryDirectory() as directory, mapping(allowed=mapped):
        made = built(case, directory)
        found, metrics = run(
            "ssij", made, case.stream, how=how, batch_rows=batch_rows, pending_bytes=pending_bytes,
            cache_bytes=slots_bytes(made, min(slots, max(1, made.pages))), waiting_bytes=waiting_bytes,
        )  # fmt: skip
        assert found == expected_of(case, how)
        assert metrics.rows_in == case.stream.num_rows
        assert metrics.rows_out == sum(found.values())
        assert (metrics.rows_waiting, metrics.rows_shed) == (0, 0)
        assert 0 < metrics.budget_peak_bytes <= metrics.budget_bytes


@pytest.mark.parametrize("path_name", ["cycle", "oldest"])
@pytest.mark.parametrize("how", sorted(JOIN_KINDS))
def test_the_page_cache_stands_before_other_access_paths(tmp_path: Path, path_name: str, how: str) -> None:
    rng = np.random.default_rng(6)
    master = pa.table({"k": rng.integers(0, 300, 900), "v": [f"{i:020d}" for i in range(900)]})
    many = build_store(master, tmp_path / "s", key="k", shards=2, page_size=PAGE_BYTES)
    stream = pa.table({"k": np.minimum(rng.zipf(1.5, 3000), 400)})
    budget, metrics = MemoryBudget(16 << 20), JoinMetrics()
    room = QueueRoom(budget, lambda: 40_000, fixed=True)
    buffer = DiskBuffer(many, [0, 1], room, buffer_pages=5, budget=budget, metrics=metrics)
    shape = shape_of(many, stream.schema, how)
    cache = PageCache(
        buffer.shards, budget=budget, size_bytes=slots_bytes(many, 12), layout=many.layout, fixed=True
    )
    path: Any = OldestKey(buffer, layout=many.layout, pages=5)
    if path_name == "cycle":
        path = CyclicScan(buffer, layout=many.layout, segment_pages=5, by_chunk=False)
    join = SemiStreamJoin(
        shape, encoder=many.key_encoder, front_stage=cache, waiting_room=room, access_path=path, budget=budget,
        metrics=metrics, output_bytes=1 << 20,
    )  # fmt: skip
    out = [found for part in stream.to_batches(max_chunksize=200) for found in join.push(part)]
    out += join.flush()
    cache.check_invariants()
    assert metrics.hits > 500
    assert bag(out) == joined(stream, master, stream_key=["k"], master_key=["k"], how=how)
