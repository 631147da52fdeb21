"""The entry table: what is said of memory and of addresses, whatever comes and goes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import front_stages as fs

from semistream.core.contracts import JOIN_KINDS, ChunkLimit
from semistream.core.rows import RowLayout
from semistream.front_stage import _table_kernels as kernels
from semistream.front_stage.entry_table import EntryTable
from semistream.front_stage.lru import LruFrontStage
from semistream.front_stage.s3_fifo import S3FifoFrontStage
from semistream.front_stage.threshold import ThresholdFrontStage
from semistream.front_stage.w_tinylfu import WTinyLfuFrontStage
from semistream.testing.fakes import RowsInMemory, encode_keys, waiting_for

KINDS = [LruFrontStage, ThresholdFrontStage, S3FifoFrontStage, WTinyLfuFrontStage]


def make(kind: Any = LruFrontStage, size_bytes: int = 1 << 14, *, fixed: bool = True, **changed: Any) -> Any:
    settings = {"layout": fs.LAYOUT, "fixed": fixed, "row_bytes": 60.0, "decode_bytes": 1 << 16} | changed
    return kind(size_bytes, **settings)


@pytest.mark.parametrize("kind", KINDS)
@given(
    seed=st.integers(0, 2**32 - 1), fixed=st.booleans(), size_bytes=st.sampled_from([4096, 10_000, 50_001])
)
def test_it_never_takes_more_bytes_than_it_was_given(
    kind: Any, seed: int, fixed: bool, size_bytes: int
) -> None:
    """Whatever the sizes of rows, and however wrong the expected ones are."""
    rng = Random(seed)
    stage = make(kind, size_bytes, fixed=fixed, row_bytes=rng.choice([1.0, 60.0, 3000.0]))
    for _ in range(8):
        numbers = rng.sample(range(500), rng.choice([1, 20, 300]))
        width = rng.choice([0, 10, 100, 700])
        master = RowsInMemory(
            fs.SCHEMA, {n: [(n, "x" * rng.randint(0, width))] * rng.choice([0, 1, 4]) for n in numbers}
        )
        waiting, ordered = waiting_for(dict.fromkeys(numbers, rng.choice([1, 3])), fixed=fixed)
        for matches in master.matches(waiting, ordered, 10_000):
            stage.admit(matches, master)
        stage.adapt(0)
        stage.check_invariants()
        table = stage._table
        own = sum(array.nbytes for array in (table._buckets, table._lists, table.state))
        own += sum(value.nbytes for value in vars(stage).values() if isinstance(value, np.ndarray))
        used = int(table.state[kernels.TAIL]) + 32 * int(table.state[kernels.RECORDS])
        assert own + used <= size_bytes
        assert fs.report(stage).front_stage_bytes <= size_bytes


def test_a_key_that_would_take_too_much_is_left_out() -> None:
    stage = make()
    fs.bring(stage, {1: 1}, lambda _: 80, rows=30)
    fs.bring(stage, {2: 1}, lambda _: 80)
    assert fs.ask(stage, [1, 2]) == [1]


def test_rows_that_were_handed_out_stay_where_they_are_until_more_come_in() -> None:
    stage = make()
    for first in range(0, 600, 100):  # with gaps, and filled ones
        fs.bring(stage, dict.fromkeys(range(first, first + 100), 1), lambda n: n % 50)
    there = fs.held(stage, range(600))[0]
    keys = encode_keys(there, fixed=True)
    answers = stage.probe(keys, 0, len(there) + 1)
    assert answers.present == len(there)
    limit = ChunkLimit(bytes=1 << 20, pair_bytes=np.full(len(there), 16, np.int64))
    (pairs,) = stage.pairs(answers, JOIN_KINDS["inner"], limit)
    fs.ask(stage, there[::-1])
    stage.adapt(1)
    numbers, texts = (column.to_pylist() for column in stage.layout.decode(pairs.row_at))
    assert numbers == there
    assert texts == ["x" * (n % 50) for n in there]


def test_a_pair_of_semi_and_anti_joins_has_no_row() -> None:
    stage = make()
    fs.bring(stage, {1: 1, 2: 1}, lambda n: None if n == 2 else 5)
    answers = stage.probe(encode_keys([1, 2, 3, None], fixed=True), 0, 9)
    limit = ChunkLimit(bytes=1 << 20, pair_bytes=np.full(4, 16, np.int64))
    found = {
        how: [(p.stream_index.tolist(), (p.row_at > 0).tolist()) for p in stage.pairs(answers, kind, limit)]
        for how, kind in JOIN_KINDS.items()
    }
    assert found == {
        "inner": [([0], [True])],
        "left": [([0, 1, 3], [True, False, False])],
        "semi": [([0], [False])],
        "anti": [([1, 3], [False, False])],
    }


def test_more_buckets_find_the_same_keys() -> None:
    stage = make(size_bytes=1 << 16, row_bytes=5000.0)
    fs.bring(stage, dict.fromkeys(range(200), 1), lambda _: 5)
    table: EntryTable = stage._table
    assert table.is_crowded
    while table.is_crowded:
        assert table.grow_buckets()
        stage.check_invariants()
        assert fs.ask(stage, list(range(300))) == list(range(200, 300))


def test_memory_that_is_given_back_is_nobodys() -> None:
    stage = make(size_bytes=1 << 20)
    fs.bring(stage, dict.fromkeys(range(3000), 1), lambda _: 80)
    table: EntryTable = stage._table
    nobody = np.zeros(0, np.int64)
    while table.entries > 100:
        kernels.evict(table.place, nobody, int(table._lists[0, kernels.HEAD]))
    table.compact()
    table.return_memory()
    assert fs.ask(stage, list(range(3000))) == list(range(2900))
    assert table.held_bytes - table.fixed_bytes == table.live_bytes
    assert not table._bytes[int(table.state[kernels.TAIL]) + 4096 : -32 * 100 - 4096].any()
    stage.check_invariants()


@pytest.mark.parametrize("field", range(0, 32, 4))
def test_a_damaged_record_is_noticed(field: int) -> None:
    stage = make()
    fs.bring(stage, dict.fromkeys(range(20), 1), lambda _: 5)
    stage.check_invariants()
    place = stage._table.place
    kernels.put(place, 7, field, kernels.get(place, 7, field) ^ 1)
    if field == kernels.WORD:  # the policy's own
        stage.check_invariants()
    else:
        with pytest.raises(AssertionError):
            stage.check_invariants()


def test_columns_may_be_none_or_many() -> None:
    for schema in (pa.schema([]), pa.schema([(f"c{i}", pa.string()) for i in range(40)])):
        rows = {n: [("y" * (n % 3),) * len(schema)] for n in range(10)}
        master = RowsInMemory(schema, rows)
        stage = make(layout=RowLayout(schema, 2))
        waiting, ordered = waiting_for(dict.fromkeys(rows, 1), fixed=True)
        for matches in master.matches(waiting, ordered, 100):
            stage.admit(matches, master)
        stage.check_invariants()
        assert fs.ask(stage, list(range(12))) == [10, 11]
