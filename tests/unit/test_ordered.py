"""Output in the stream's order: its kernels and parts against slow twins, and what it does when there is too much."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import joined
from tests.ordered import ordered_lookup, start_ordered

from semistream.core import _order_kernels as kernels
from semistream.core.held_rows import ROW_BYTES, HeldRows, Run
from semistream.core.ordered import OrderedJoin
from semistream.core.turns import GIVEN_UP, LEFT, Turns
from semistream.errors import BudgetError, ConfigError
from semistream.joins import ALGORITHMS, minimum_task_bytes
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.shedding.shedding_join import SheddingJoin
from semistream.shedding.spill import Spill


@given(waiting=st.lists(st.integers(0, 4), min_size=1, max_size=8), data=st.data())
def test_the_rows_of_keys_that_leave(waiting: list[int], data: st.DataObject) -> None:
    starts = np.concatenate([[0], np.cumsum(waiting)]).astype(np.int64)
    order = np.array(data.draw(st.permutations(range(int(starts[-1])))), np.int64)
    first = data.draw(st.integers(0, len(waiting) - 1))
    leaving = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(waiting) - first, max_size=len(waiting) - first))
    )
    rows = np.full(order.size, -1, np.int64)
    count = kernels.leaving_rows(order, starts, first, leaving, rows)
    expected = [
        row
        for key, leaves in enumerate(leaving.tolist(), first)
        if leaves
        for row in order[starts[key] : starts[key + 1]].tolist()
    ]
    assert rows[:count].tolist() == expected


@given(flags=st.lists(st.integers(0, 3), max_size=20), data=st.data())
def test_the_first_row_that_has_not_left(flags: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(flags)))
    stop = data.draw(st.integers(at, len(flags)))
    expected = next((i for i in range(at, stop) if flags[i] != LEFT), stop)
    assert kernels.first_other(np.array(flags, np.uint8), at, stop, LEFT) == expected


@given(data=st.data(), sizes=st.lists(st.integers(1, 200), min_size=1, max_size=12))
def test_turns_against_a_list(data: st.DataObject, sizes: list[int]) -> None:
    """Rows come, leave in any order, and some are given up and come in again when all before them have left."""
    turns = Turns(0)
    state: list[int] = []  # flags of every row there ever was
    done = 0
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    for size in [*sizes, 0, 0, 0]:
        turns.enter(np.full(size, 7))
        state += [0] * size
        window = np.arange(done, len(state))
        given_up = window[
            (np.array(state[done:], np.int64) & GIVEN_UP == 0) & (rng.random(window.size) < 0.1)
        ]
        turns.give_up(given_up)
        for row in given_up.tolist():
            state[row] |= int(GIVEN_UP)
        staying = window[np.array(state[done:], np.int64) & LEFT == 0]
        leaving = rng.permutation(staying[rng.random(staying.size) < 0.7])
        turns._leave(leaving)
        for row in leaving.tolist():
            state[row] |= int(LEFT)
        while done < len(state) and state[done] == LEFT:
            done += 1
        assert (turns.oldest, turns.next) == (done, len(state))
        assert turns.held == sum(flags & LEFT > 0 for flags in state[done:])
        assert turns.charged == 7 * turns.in_flight
        rows = np.arange(done, len(state))
        assert turns.are_given_up(rows).tolist() == [flags & GIVEN_UP > 0 for flags in state[done:]]
        assert turns.have_left(rows).tolist() == [flags & LEFT > 0 for flags in state[done:]]
        assert not turns.are_given_up(np.arange(done)).any()
        turns.check_invariants()
        if turns.is_given_up:
            assert state[done] == LEFT | GIVEN_UP
            turns.enter_again(np.array([done]))
            state[done] = 0


def run_of(numbers: list[int], seed: int) -> Run:
    rows = pa.record_batch(
        {"n": pa.array(numbers, pa.int64()), "text": pa.array([f"{seed} {i}" for i in range(len(numbers))])}
    )
    return Run.of(rows, np.array(numbers, np.int64))


_batches = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=30), max_size=12)


@given(
    batches=_batches,
    releases=st.lists(st.integers(0, 60), max_size=4),
    chunk=st.sampled_from([1, 300, 1 << 20]),
)
def test_held_rows_come_out_sorted_when_they_are_let(
    batches: list[list[int]], releases: list[int], chunk: int
) -> None:
    held = HeldRows(chunk_bytes=chunk)
    expected: Counter[tuple[int, str]] = Counter()
    for seed, numbers in enumerate(batches):
        run = run_of(numbers, seed)
        expected.update(zip(*run.rows.to_pydict().values(), strict=True))
        held.add(run)
        held.check_invariants()
    found: list[tuple[int, str]] = []
    for last in [*sorted(releases), 60]:
        for batch in held.release(last):
            assert batch.num_rows == 1 or batch.nbytes <= chunk
            assert max(batch.column("n").to_pylist()) <= last
            found += zip(*batch.to_pydict().values(), strict=True)
        held.check_invariants()
        assert held.rows + len(found) == sum(map(len, batches))
    assert [number for number, _ in found] == sorted(number for number, _ in found)
    assert Counter(found) == expected
    assert held.bytes == 0


@given(batches=_batches, first=st.integers(0, 30), wanted=st.integers(1, 6000), charge=st.integers(60, 300))
def test_the_youngest_rows_are_given_up_first(
    batches: list[list[int]], first: int, wanted: int, charge: int
) -> None:
    held = HeldRows(chunk_bytes=1 << 20)
    totals: Counter[int] = Counter()
    for seed, numbers in enumerate(batches):
        run = run_of(numbers, seed)
        held.add(run)
        for number, size in zip(run.numbers.tolist(), run.sizes.tolist(), strict=True):
            totals[number] += size
    rows, freed, expected = held.rows, 0, []
    for number in range(60, first - 1, -1):
        if freed < wanted and totals[number] > charge:
            freed += totals[number] - charge
            expected.append(number)
    numbers, dropped = held.give_up(first, np.full(61 - first, charge), 1, wanted)
    held.check_invariants()
    assert numbers.tolist() == sorted(expected)
    assert held.rows == rows - dropped
    kept = held._given_up.run.bytes if held._given_up else 0
    gone = sum(totals[number] for number in expected)
    assert held.bytes == sum(totals.values()) - gone + kept
    if expected:
        needs = [totals[number] for number in sorted(expected)]
        fitting = held.given_up_numbers(wanted).size
        assert fitting == max(1, sum(sum(needs[: i + 1]) <= wanted for i in range(len(needs))))
        taken = held.take_given_up(fitting)
        assert taken.column(0).to_pylist() == taken.column(1).to_pylist() == sorted(expected)[:fitting]
        assert held.given_up_numbers(1 << 40).tolist() == sorted(expected)[fitting:]


# -- whole joins ---------------------------------------------------------------------------------------------

WIDE = pa.table(
    {
        "k": pa.array([7] * 4000 + list(range(100, 3100))),
        "v": pa.array([f"{n:060d}" for n in range(7000)]),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return build_store(WIDE, tmp_path_factory.mktemp("ordered") / "s", key="k", shards=2, page_size=1024)


def counted(keys: list[int | None], **columns: pa.Array) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), **columns, "arrived": pa.array(range(len(keys)))})


def mixed(rows: int) -> pa.Table:
    """Few, whose output is larger than what can be held, among others, absent keys and nulls."""
    numbers = np.random.default_rng(5).integers(100, 3500, rows).tolist()
    return counted([7 if i % 50 == 30 else None if i % 31 == 0 else n for i, n in enumerate(numbers)])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_more_output_than_can_be_held_is_made_again(table: MasterTable, algorithm: str, how: str) -> None:
    stream = mixed(300)
    found, metrics = ordered_lookup(table, stream, algorithm=algorithm, how=how, batch_rows=100)
    assert found == joined(stream, WIDE, stream_key=["k"], master_key=["k"], how=how)
    assert metrics.rows_in - metrics.rows_rejoined == 300
    assert metrics.rows_out - metrics.rows_dropped == sum(found.values())
    if ALGORITHMS[algorithm].path != "single":  # which holds nothing, since nobody waits with others
        assert metrics.rows_rejoined > 0
        assert metrics.rows_dropped > 0


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_what_is_no_larger_than_its_row_is_never_given_up(table: MasterTable, how: str) -> None:
    stream = mixed(5000)
    for algorithm in ("meshjoin", "chybridjoin", "adaptive"):
        found, metrics = ordered_lookup(table, stream, algorithm=algorithm, how=how, batch_rows=1000)
        assert found == joined(stream, WIDE, stream_key=["k"], master_key=["k"], how=how)
        assert (metrics.rows_rejoined, metrics.rows_dropped) == (0, 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_row_may_have_any_output(table: MasterTable, algorithm: str) -> None:
    """Alone, it goes straight through: nothing is made twice."""
    stream = counted([7])
    found, metrics = ordered_lookup(table, stream, algorithm=algorithm)
    assert found == joined(stream, WIDE, stream_key=["k"], master_key=["k"], how="inner")
    assert (metrics.rows_out, metrics.rows_rejoined) == (4000, 0)


def test_stream_rows_wider_than_the_share(table: MasterTable) -> None:
    notes = pa.array(["x" * (1 << 20) if i in (0, 7, 8, 60) else "n" for i in range(100)])
    stream = counted([100 + i % 40 for i in range(100)], note=notes)
    for batch_rows in (1, 9, 100):
        found, metrics = ordered_lookup(table, stream, how="left", batch_rows=batch_rows)
        assert found == joined(stream, WIDE, stream_key=["k"], master_key=["k"], how="left")
        assert metrics.rows_rejoined == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_empty_batches_and_nobody(table: MasterTable, algorithm: str) -> None:
    stream = counted([100, None, 3400, 100])
    with start_ordered(table, stream.schema, algorithm=algorithm, how="left") as join:
        empty = pa.RecordBatch.from_arrays(
            [pa.array([], field.type) for field in stream.schema], schema=stream.schema
        )
        out = [*join.push(empty), *join.flush()]
        assert not out
        for i in range(4):
            out += [*join.push(empty), *join.push(stream.slice(i, 1).to_batches()[0]), *join.push(empty)]
        out += join.flush()
        join.finish()
    assert [n for batch in out for n in batch.column("arrived").to_pylist()] == [0, 1, 2, 3]


def test_who_is_answered_waits_for_those_before_him(table: MasterTable) -> None:
    """What 003 says of this order: the cache has the row, and it cannot be put out."""
    with start_ordered(table, counted([1]).schema, memory_bytes=4 << 20) as join:
        first = counted([100, 101])
        assert not list(join.push(first.to_batches()[0]))
        assert sum(batch.num_rows for batch in join.flush()) == 2
        assert sum(batch.num_rows for batch in join.push(counted([100]).to_batches()[0])) == 1
        assert not list(join.push(counted([102]).to_batches()[0]))
        assert not list(join.push(counted([100, 101, 5000]).to_batches()[0]))
        metrics = join.metrics
        assert (metrics.rows_waiting, metrics.rows_held) == (2, 2)
        out = pa.Table.from_batches(join.flush())
        assert out.column("k").to_pylist() == [102, 100, 101]
        final = join.finish()
    assert (final.rows_waiting, final.rows_held, final.rows_out_held) == (0, 0, 0)
    assert final.rows_out_held_peak == 2


def test_rows_wait_while_the_share_is_full(table: MasterTable) -> None:
    """Nobody comes in before the oldest has left: the window is never larger than what was reserved for it."""
    stream = counted((100 + np.arange(6000) * 7 % 3000).tolist())
    with start_ordered(table, stream.schema, algorithm="hybridjoin") as join:
        loop = join.loop
        assert isinstance(loop, OrderedJoin)
        incoming = loop.receive(stream.combine_chunks().to_batches()[0])
        in_flight = 0
        while incoming.left:
            list(loop.let_in(incoming))
            in_flight = max(in_flight, loop._turns.in_flight)
            loop.check_invariants()
            assert incoming.at + incoming.left == 6000
            list(loop.step())
            loop.check_invariants()
        list(loop.flush())
        join.finish()
        share = join.budget.by_name()["ordering"]
    assert 0 < in_flight < 6000
    assert in_flight * ROW_BYTES < share / 4


@pytest.mark.parametrize(("algorithm", "memory_bytes"), [("hybridjoin", 0), ("meshjoin", 4 << 20)])
def test_what_is_allocated_fits_the_budget(table: MasterTable, algorithm: str, memory_bytes: int) -> None:
    """NumPy and Arrow together, beside the batch that is pushed."""
    stream = counted((100 + np.random.default_rng(3).integers(0, 3000, 20_000)).tolist())
    batches = stream.to_batches(max_chunksize=2000)
    # The batch, its numbers, charges and their sums; its misses, and what is derived from its keys.
    batch_bytes = max(3 * batch.nbytes + 112 * batch.num_rows for batch in batches)

    def run() -> tuple[int, int]:
        peak = 0
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        with start_ordered(table, stream.schema, algorithm=algorithm, memory_bytes=memory_bytes) as join:
            for batch in batches:
                for _ in join.push(batch):
                    peak = max(peak, pa.total_allocated_bytes() - before)
            for _ in join.flush():
                peak = max(peak, pa.total_allocated_bytes() - before)
            join.finish()
        peak += tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak, join.budget.total_bytes

    # In the first run kernels are compiled, and in any the interpreter's own tables may grow.
    peak, total = min(run() for _ in range(3))
    assert peak <= total + batch_bytes


def test_the_least_memory_is_told_with_the_order(table: MasterTable) -> None:
    least = minimum_task_bytes(table, [0, 1], "meshjoin", ordered=True)
    assert least > minimum_task_bytes(table, [0, 1], "meshjoin")
    with pytest.raises(BudgetError, match="minimum") as caught:
        start_ordered(table, counted([1]).schema, algorithm="meshjoin", memory_bytes=least // 2)
    assert f"{least:,}" in str(caught.value)


def test_shedding_is_refused(table: MasterTable, tmp_path: Path) -> None:
    spill = Spill(tmp_path)
    with start_ordered(table, counted([1]).schema, algorithm="hybridjoin") as join:
        with pytest.raises(ConfigError, match="ordered=True") as caught:
            SheddingJoin(join.loop, join.room, spill, strategy="considering")  # type: ignore[arg-type]
        assert "Hint:" in str(caught.value)
    spill.close()


def test_streams_whose_batches_have_other_names_and_offsets(table: MasterTable) -> None:
    """Columns are told by their place, and their types may be wider than the schema said."""
    stream = counted([100, 7, 200] * 20, note=pa.array(["a", "b", None] * 20))
    with start_ordered(table, stream.schema, algorithm="rmeshjoin", how="semi") as join:
        out = []
        for i, batch in enumerate(stream.to_batches(max_chunksize=7)):
            if i % 2:
                arrays = [batch.column(0), batch.column(1).cast(pa.large_string()), batch.column(2)]
                batch = pa.RecordBatch.from_arrays(arrays, names=["k", "note", "arrived"])
            out += join.push(batch)
        out += join.flush()
        join.finish()
    assert [n for batch in out for n in batch.column("arrived").to_pylist()] == list(range(60))
