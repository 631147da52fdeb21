"""The partition-based join: slots, threshold, the fullest slot first."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.oracle import joined
from tests.page_joins import PageJoin, run, shape_of, start
from tests.property.test_core_join import built, expected_of, mapping
from tests.strategies import JoinCase, join_cases
from tests.unit.test_queue_room import arrivals_of

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, JOIN_KINDS
from semistream.core.keys import KeyBatch
from semistream.errors import BudgetError
from semistream.front_stage.pages import page_cache_bytes
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.waiting_room.partitioned_room import KEY_BYTES, SLOT_BYTES, PartitionedRoom
from semistream.waiting_room.partitions import Partition, Partitions
from semistream.waiting_room.queue_room import waiting_row_bytes

PAGE_BYTES = 512
ROWS = 1000
PAGES = 4  # of a partition
SCHEMA = pa.schema([("k", pa.int64())])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    master = pa.table({"k": pa.array(range(ROWS)), "v": pa.array([f"{i:030d}" for i in range(ROWS)])})
    path = tmp_path_factory.mktemp("partitioned") / "s"
    return build_store(master, path, key="k", page_size=PAGE_BYTES)


def batch(keys: Iterable[int]) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(keys, pa.int64())}, schema=SCHEMA)


def started(table: MasterTable, *, waiting_bytes: int = 1 << 20, **more: Any) -> PageJoin:
    cache_bytes = page_cache_bytes(table.pages, table.page_bytes, slots=1, shards=table.shards)
    shape = shape_of(table, SCHEMA, more.pop("how", "inner"))
    return start(
        "partitioned", table, shape, cache_bytes=cache_bytes, waiting_bytes=waiting_bytes, pages=PAGES, **more
    )


def partition_of(table: MasterTable, key: int) -> int:
    keys = table.key_encoder.encode([pa.array([key])])
    return int(Partitions({0: table.open_shard(0)}, PAGES).of(keys, np.zeros(1, np.int32))[0])


def keys_out(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [key for each in batches for key in each.column(0).to_pylist()]


# -- partitions --------------------------------------------------------------------------------------------


def test_partitions_are_stretches_of_pages_of_one_shard(tmp_path: Path) -> None:
    master = pa.table({"k": pa.array(range(300)), "v": pa.array([f"{i:030d}" for i in range(300)])})
    three = build_store(master, tmp_path / "s", key="k", shards=3, page_size=PAGE_BYTES)
    shards = {number: three.open_shard(number) for number in (2, 0, 1)}
    partitions = Partitions(shards, PAGES)
    places = [partitions[i] for i in range(partitions.count)]
    for number, shard in shards.items():
        mine = [place for place in places if place.shard == number]
        assert [place.first for place in mine] == list(range(0, shard.info.pages, PAGES))
        assert [place.stop for place in mine] == [*(place.first for place in mine[1:]), shard.info.pages]
    keys = three.key_encoder.encode([pa.array(range(300))])
    numbers = three.key_encoder.shards([pa.array(range(300))], 3)
    for key, found in enumerate(partitions.of(keys, numbers).tolist()):
        place = partitions[found]
        assert place.shard == numbers[key]
        one = keys.take(np.array([key]))
        assert place.first <= shards[place.shard].fences.locate(one)[0][0] < place.stop


def test_a_shard_without_pages_is_a_partition_too(tmp_path: Path) -> None:
    few = build_store(pa.table({"k": [1], "v": [1]}), tmp_path / "s", key="k", shards=2, page_size=PAGE_BYTES)
    partitions = Partitions({number: few.open_shard(number) for number in (0, 1)}, PAGES)
    assert partitions.count == 2
    assert {partitions[0], partitions[1]} == {
        Partition(shard=number, first=0, stop=few.open_shard(number).info.pages) for number in (0, 1)
    }


# -- the wait buffer ---------------------------------------------------------------------------------------


def test_nothing_is_read_before_a_slot_has_reached_the_threshold(table: MasterTable) -> None:
    join = started(table, threshold_rows=3)
    assert keys_out(join.push(batch([0, 500, 0]))) == []
    assert (join.metrics.steps, join.room.count) == (0, 3)
    assert keys_out(join.push(batch([1]))) == []  # it is read when the next row wants to come in
    assert join.room.space(8.0) == 0
    assert sorted(keys_out(join.push(batch([900])))) == [0, 0, 1]
    assert (join.metrics.steps, join.metrics.pages_read, join.room.count) == (1, PAGES, 2)
    assert join.room.rows_waiting(partition_of(table, 0)) == 0
    join.room.check_invariants()


def test_the_fullest_slot_is_read_first(table: MasterTable) -> None:
    join = started(table, threshold_rows=2)
    few, most, least = 100, 500, 900
    list(join.push(batch([few] * 3 + [most] * 5 + [least])))
    read: list[tuple[int, int]] = []
    buffer_read = join.path._buffer.read
    join.path._buffer.read = lambda shard, first, stop: (
        read.append((first, stop)),
        buffer_read(shard, first, stop),
    )[1]
    list(join.push(batch([least])))
    assert [first // PAGES for first, _ in read] == [partition_of(table, most), partition_of(table, few)]
    assert {stop - first for first, stop in read} == {PAGES}
    assert join.room.rows_waiting(partition_of(table, least)) == 2
    list(join.flush())
    assert [first // PAGES for first, _ in read][2:] == [partition_of(table, least)]


def test_a_full_buffer_reads_the_fullest_slot_though_no_threshold_is_reached(table: MasterTable) -> None:
    arrivals = arrivals_of([0], 0, fixed=True)
    capacity = int(50 * (waiting_row_bytes(arrivals.row_bytes) + KEY_BYTES))
    join = started(table, waiting_bytes=capacity, threshold_rows=1 << 30)
    rng = np.random.default_rng(1)
    read: list[bool] = []
    step = join.path.step

    def recorded() -> Any:
        counts = [join.room.rows_waiting(slot) for slot in range(join.path._partitions.count)]
        read.append(counts[join.room.fullest] == max(counts) < join.room.threshold_rows)
        return step()

    join.path.step = recorded
    for _ in range(100):
        list(join.push(batch([*rng.integers(0, ROWS, 9), 0])))
    assert len(read) > 5
    assert all(read)
    list(join.flush())
    assert join.room.count == 0


def test_by_default_a_slot_is_read_with_twice_its_share_since_it_is_half_full_on_average(
    table: MasterTable,
) -> None:
    partitions = -(-table.pages // PAGES)
    row_bytes = waiting_row_bytes(arrivals_of([0], 0, fixed=True).row_bytes) + KEY_BYTES
    join = started(table, waiting_bytes=int(20 * partitions * row_bytes))
    rng = np.random.default_rng(1)
    for _ in range(200):
        list(join.push(batch(rng.integers(0, ROWS, 50))))
    places = join.room._links.shape[0]
    assert join.room.threshold_rows == 1 + -(-2 * places // partitions) > 30
    assert join.room.count > 0.9 * places
    assert join.metrics.removals / join.metrics.steps > 1.7 * places / partitions


def test_a_rare_partition_waits_however_many_others_come_until_the_stream_ends(table: MasterTable) -> None:
    """That is what the papers criticise."""
    join = started(table, threshold_rows=20)
    list(join.push(batch([ROWS - 1])))
    out: list[int] = []
    for turn in range(200):
        out += keys_out(join.push(batch([(7 * turn) % 500, (11 * turn) % 500])))
    assert join.metrics.steps > 5
    assert ROWS - 1 not in out
    out += keys_out(join.flush())
    assert out.count(ROWS - 1) == 1
    assert len(out) == 401
    assert join.metrics.rows_waiting == 0


def test_a_read_is_one_request_for_a_whole_partition_and_all_its_rows_are_looked_up(
    table: MasterTable,
) -> None:
    join = started(table)
    list(join.push(batch([0, 1, 500])))
    before = join.metrics.probes
    list(join.flush())
    metrics = join.metrics
    assert (metrics.steps, metrics.read_requests, metrics.random_reads) == (2, 2, 2)
    assert (metrics.pages_read, metrics.bytes_read) == (2 * PAGES, 2 * PAGES * PAGE_BYTES)
    assert metrics.probes - before == 2 * PAGES * ROWS // table.pages
    assert (metrics.appends, metrics.removals) == (3, 3)


def test_a_cached_block_answers_and_nobody_waits_for_it(table: MasterTable) -> None:
    join = started(table)
    list(join.push(batch([3])))
    list(join.flush())
    assert keys_out(join.push(batch([3, 4]))) == [3, 4]
    assert (join.metrics.hits, join.room.count) == (2, 0)


def test_rows_behind_the_partitions_end_belong_to_its_last_key(tmp_path: Path) -> None:
    numbers = [*range(40), *[40] * 200, *range(41, 80)]
    master = pa.table({"k": pa.array(numbers), "v": pa.array([f"{i:030d}" for i in range(len(numbers))])})
    many = build_store(master, tmp_path / "s", key="k", page_size=PAGE_BYTES)
    stream = pa.table({"k": [39, 40, 40, 41, 77, 79, 99]})
    for how in sorted(JOIN_KINDS):
        for threshold_rows in (1, 3, None):
            found, metrics = run(
                "partitioned", many, stream, how=how, batch_rows=2, waiting_bytes=1 << 20, pages=2,
                threshold_rows=threshold_rows, cache_bytes=page_cache_bytes(many.pages, PAGE_BYTES, slots=1),
            )  # fmt: skip
            assert found == joined(stream, master, stream_key=["k"], master_key=["k"], how=how)
            assert metrics.pages_read >= 200 // 12


def test_a_key_that_waits_for_another_partition_is_not_served_by_a_part_of_its_rows(tmp_path: Path) -> None:
    """Its last rows lie in a partition that is read first."""
    numbers = [*range(40), *[40] * 30, *range(41, 80)]
    master = pa.table({"k": pa.array(numbers), "v": pa.array([f"{i:030d}" for i in range(len(numbers))])})
    many = build_store(master, tmp_path / "s", key="k", page_size=PAGE_BYTES)
    first_page, last_page = many.open_shard(0).fences.locate(many.key_encoder.encode([pa.array([40, 41])]))
    assert first_page[0] // 2 < last_page[0] // 2 == first_page[1] // 2
    stream = pa.table({"k": [40, 41, 41, 41]})
    for how in sorted(JOIN_KINDS):
        found, _ = run(
            "partitioned", many, stream, how=how, batch_rows=4, waiting_bytes=1 << 20, pages=2,
            threshold_rows=9, cache_bytes=page_cache_bytes(many.pages, PAGE_BYTES, slots=1),
        )  # fmt: skip
        assert found == joined(stream, master, stream_key=["k"], master_key=["k"], how=how)


def test_what_the_slots_take_is_reserved(table: MasterTable) -> None:
    join = started(table)
    held = join.budget.by_name()
    assert held["wait buffer slots"] == SLOT_BYTES * -(-table.pages // PAGES)
    assert held["disk buffer"] == PAGES * PAGE_BYTES
    with pytest.raises(BudgetError):
        PartitionedRoom(MemoryBudget(SLOT_BYTES - 1), lambda: 1000, fixed=True)


# -- slots against a model ---------------------------------------------------------------------------------

SLOTS = 5


class ByLength(Partitions):
    """Keys go to slots by their bytes, as no table would do it."""

    def __init__(self) -> None:
        pass

    @property
    def count(self) -> int:
        return SLOTS

    def of(self, keys: KeyBatch, shards: np.ndarray) -> I64:
        texts = keys.to_binary().to_pylist()
        return np.array([sum(text) % SLOTS for text in texts], np.int64)


class SlotsModel(RuleBasedStateMachine):
    """`model` holds (id, key number), the oldest first."""

    @initialize(fixed=st.booleans(), threshold_rows=st.sampled_from([None, 3, 1000]))
    def start(self, fixed: bool, threshold_rows: int | None) -> None:
        self.fixed = fixed
        self.room = PartitionedRoom(
            MemoryBudget(40_000), lambda: 39_000, fixed=fixed, threshold_rows=threshold_rows
        )
        self.partitions = ByLength()
        self.room.divide(self.partitions)
        self.model: list[tuple[int, int]] = []
        self.next_id = 0

    def slot_of(self, number: int) -> int:
        keys = arrivals_of([number], 0, fixed=self.fixed).keys
        return int(self.partitions.of(keys, np.zeros(1, np.int32))[0])

    @rule(numbers=st.lists(st.integers(0, 20), min_size=1, max_size=20))
    def put(self, numbers: list[int]) -> None:
        arrivals = arrivals_of(numbers, self.next_id, fixed=self.fixed)
        is_due = bool(self.model) and max(self.counts().values()) >= self.room.threshold_rows
        assert not is_due or self.room.space(arrivals.row_bytes) == 0
        taken = self.room.put(arrivals, np.arange(len(numbers)))
        self.model += [(self.next_id + i, numbers[i]) for i in range(taken)]
        self.next_id += len(numbers)

    def counts(self) -> Counter[int]:
        return Counter(self.slot_of(number) for _, number in self.model)

    @precondition(lambda self: self.model)
    @rule(share=st.floats(0, 1))
    def serve(self, share: float) -> None:
        """Some keys of the fullest slot leave."""
        slot = self.room.fullest
        keys = self.room.keys_waiting(slot)
        keys = keys[: max(1, int(share * keys.size))]
        waiting = self.room.waiting(keys, np.zeros(keys.size, np.int64), leave=True)
        gone = set(waiting.rows.take(waiting.order).column(0).to_pylist())
        assert {self.slot_of(number) for row, number in self.model if row in gone} == {slot}
        self.model = [row for row in self.model if row[0] not in gone]

    @rule(count=st.integers(1, 30))
    def take_oldest(self, count: int) -> None:
        self.room.take_oldest(count)
        self.model = self.model[count:]

    @rule()
    def settle(self) -> None:
        self.room.settle()

    @invariant()
    def holds_together(self) -> None:
        if not hasattr(self, "room"):
            return
        self.room.check_invariants()
        counts = self.counts()
        assert [self.room.rows_waiting(slot) for slot in range(SLOTS)] == [counts[i] for i in range(SLOTS)]
        if counts:
            assert counts[self.room.fullest] == max(counts.values())
        for slot in range(SLOTS):
            keys = self.room.keys_waiting(slot)
            assert keys.size == len({n for _, n in self.model if self.slot_of(n) == slot})


TestSlotsModel = SlotsModel.TestCase
TestSlotsModel.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)


# -- equality with the oracle ------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    case=join_cases(),
    how=st.sampled_from(sorted(JOIN_KINDS)),
    batch_rows=st.sampled_from([1, 3, 64, 1 << 20]),
    slots=st.sampled_from([1, 5, 1000]),
    pages=st.sampled_from([1, 3, 1000]),
    threshold_rows=st.sampled_from([None, 1, 7]),
    waiting_bytes=st.sampled_from([40_000, 1 << 20]),
    mapped=st.booleans(),
)
def test_partitioned_equals_the_oracle(
    case: JoinCase,
    how: str,
    batch_rows: int,
    slots: int,
    pages: int,
    threshold_rows: int | None,
    waiting_bytes: int,
    mapped: bool,
) -> None:
    with tempfile.TemporaryDirectory() as directory, mapping(allowed=mapped):
        made = built(case, directory)
        slots, pages = min(slots, max(1, made.pages)), min(pages, max(1, made.pages))
        cache_bytes = page_cache_bytes(made.pages, made.page_bytes, slots=slots, shards=made.shards)
        found, metrics = run(
            "partitioned", made, case.stream, how=how, batch_rows=batch_rows, cache_bytes=cache_bytes,
            waiting_bytes=waiting_bytes, pages=pages, threshold_rows=threshold_rows,
        )  # fmt: skip
        assert found == expected_of(case, how)
        assert metrics.rows_in == case.stream.num_rows
        assert metrics.rows_out == sum(found.values())
        assert (metrics.rows_waiting, metrics.rows_shed) == (0, 0)
        assert 0 < metrics.budget_peak_bytes <= metrics.budget_bytes
