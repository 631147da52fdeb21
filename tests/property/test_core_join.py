"""The whole core join against a plain oracle: any types, sizes and budgets, the same bag of rows."""

from __future__ import annotations

import errno
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracle import bag, joined, rows_of
from tests.stores import lookup
from tests.strategies import JoinCase, join_cases

from semistream.access_path.planned import ReadCosts
from semistream.core.contracts import JOIN_KINDS
from semistream.cost_model.profiles import HDD2012
from semistream.errors import BudgetError
from semistream.front_stage.region import Region
from semistream.front_stage.registry import FRONT_STAGES
from semistream.joins import (
    ALGORITHMS,
    minimum_bytes,
    minimum_task_bytes,
    resolve_shape,
    shards_of_task,
    start_join,
)
from semistream.master_table.builder import build_store
from semistream.master_table.files import MappedFile
from semistream.master_table.page_store import MasterTable
from semistream.simulation.run import DeviceCosts

COSTS = {
    "lookups": ReadCosts(page_seconds=0.0, byte_seconds=1.0),
    "scans": ReadCosts(page_seconds=1.0, byte_seconds=0.0),
}


def mapping(*, allowed: bool) -> Any:
    """Files may not be mapped where the address space is limited: pages then come through a buffer."""
    return patch("semistream.master_table.files.is_mapping_allowed", return_value=allowed)


def built(case: JoinCase, directory: str) -> MasterTable:
    return build_store(
        case.master, Path(directory) / "s", key=case.key, shards=case.shards, page_size=case.page_bytes
    )


def expected_of(case: JoinCase, how: str) -> Any:
    return joined(case.stream, case.master, stream_key=case.key, master_key=case.key, how=how)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    case=join_cases(),
    how=st.sampled_from(sorted(JOIN_KINDS)),
    batch_rows=st.sampled_from([1, 3, 64, 1 << 20]),
    more_memory=st.sampled_from([0, 1, 100_000, 10 << 20]),
    costs=st.sampled_from(["lookups", "scans", None]),
    cached=st.booleans(),
    mapped=st.booleans(),
)
def test_the_join_equals_the_oracle(
    case: JoinCase,
    how: str,
    batch_rows: int,
    more_memory: int,
    costs: str | None,
    cached: bool,
    mapped: bool,
) -> None:
    with tempfile.TemporaryDirectory() as directory, mapping(allowed=mapped):
        table = built(case, directory)
        assert table.rows == sum(None not in key for key in rows_of(case.master.select(case.key)))
        region: dict[str, Any] = {} if cached else {"region_source": lambda _: None}
        found, metrics = lookup(
            table,
            case.stream,
            how=how,
            memory_bytes=minimum_task_bytes(table, list(range(table.shards))) + more_memory,
            batch_rows=batch_rows,
            costs=COSTS[costs] if costs else None,
            **region,
        )
        assert found == expected_of(case, how)
        assert metrics.rows_in == case.stream.num_rows
        assert metrics.rows_out == sum(found.values())
        assert (metrics.rows_waiting, metrics.rows_shed) == (0, 0)
        assert 0 < metrics.budget_peak_bytes <= metrics.budget_bytes


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    case=join_cases(),
    how=st.sampled_from(sorted(JOIN_KINDS)),
    batch_rows=st.sampled_from([1, 3, 64, 1 << 20]),
    more_memory=st.sampled_from([0, 1, 100_000, 10 << 20]),
    mapped=st.booleans(),
)
def test_every_algorithm_equals_the_oracle(
    algorithm: str, case: JoinCase, how: str, batch_rows: int, more_memory: int, mapped: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory, mapping(allowed=mapped):
        table = built(case, directory)
        least = minimum_task_bytes(table, list(range(table.shards)), algorithm)
        found, metrics = lookup(
            table,
            case.stream,
            how=how,
            memory_bytes=least + more_memory,
            batch_rows=batch_rows,
            algorithm=algorithm,
        )
        assert found == expected_of(case, how)
        assert metrics.rows_in == case.stream.num_rows
        assert metrics.rows_out == sum(found.values())
        assert (metrics.rows_waiting, metrics.rows_shed) == (0, 0)
        assert 0 < metrics.budget_peak_bytes <= metrics.budget_bytes


@pytest.mark.parametrize("algorithm", ["adaptive", "meshjoin", "hybridjoin", "inlj"])
@pytest.mark.parametrize("front_stage", sorted(set(FRONT_STAGES) - {"clairvoyant"}))
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    case=join_cases(),
    how=st.sampled_from(sorted(JOIN_KINDS)),
    batch_rows=st.sampled_from([3, 64, 1 << 20]),
    more_memory=st.sampled_from([1, 100_000, 10 << 20]),
)
def test_any_front_stage_stands_before_any_access_path(
    algorithm: str, front_stage: str, case: JoinCase, how: str, batch_rows: int, more_memory: int
) -> None:
    """The papers' claim of a generic front stage."""
    with tempfile.TemporaryDirectory() as directory:
        table = built(case, directory)
        least = minimum_task_bytes(table, list(range(table.shards)), algorithm, front_stage)
        found, metrics = lookup(
            table,
            case.stream,
            how=how,
            memory_bytes=least + more_memory,
            batch_rows=batch_rows,
            algorithm=algorithm,
            front_stage=front_stage,
        )
        assert found == expected_of(case, how)
        assert 0 < metrics.budget_peak_bytes <= metrics.budget_bytes


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=join_cases(rows_max=120), tasks=st.sampled_from([1, 2, 3, 5]))
def test_tasks_together_are_the_whole_join(case: JoinCase, tasks: int) -> None:
    """Every task gets the rows of its shards, as the Spark runtime sends them."""
    with tempfile.TemporaryDirectory() as directory:
        table = built(case, directory)
        tasks = min(tasks, table.shards)
        memory = minimum_bytes(table, tasks) // tasks
        shape = resolve_shape(case.stream.schema, table, on=case.key, how="left", columns=None, suffix=None)
        keys = [case.stream.column(name).combine_chunks() for name in case.key]
        shard = table.key_encoder.shards(keys, table.shards)
        found: list[pa.RecordBatch] = []
        for task in range(tasks):
            mine = case.stream.take(pa.array(np.flatnonzero(shard % tasks == task)))
            shards = shards_of_task(task, tasks, table.shards)
            with start_join(table, shape, memory_bytes=memory, shards=shards) as join:
                for batch in mine.to_batches():
                    found += join.push(batch)
                found += join.flush()
                join.finish()
        assert bag(found) == expected_of(case, "left")


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=join_cases(), below=st.sampled_from([0.5, 0.9]))
def test_below_the_minimum_is_refused_and_the_minimum_works(case: JoinCase, below: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = built(case, directory)
        least = minimum_task_bytes(table, list(range(table.shards)))
        lookup(table, case.stream, memory_bytes=least)
        with pytest.raises(BudgetError, match="minimum") as caught:
            lookup(table, case.stream, memory_bytes=int(least * below))
        assert f"{least:,}" in str(caught.value)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=join_cases(), data=st.data())
def test_projection_and_renaming(case: JoinCase, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = built(case, directory)
        chosen = data.draw(st.permutations(table.value_schema.names))[:2]
        renamed = {f"s_{name}": name for name in case.key}
        stream = case.stream.rename_columns(
            [f"s_{n}" if n in case.key else n for n in case.stream.column_names]
        )
        shape = resolve_shape(stream.schema, table, on=renamed, how="left", columns=chosen, suffix=None)
        assert shape.output_schema.names == [*stream.column_names, *chosen]
        memory = minimum_task_bytes(table, list(range(table.shards)))
        with start_join(table, shape, memory_bytes=memory) as join:
            found = [out for batch in stream.to_batches() for out in join.push(batch)]
            found += join.flush()
            join.finish()
        master = case.master.select([*case.key, *chosen])
        assert bag(found) == joined(
            stream, master, stream_key=list(renamed), master_key=list(case.key), how="left"
        )


@pytest.mark.parametrize("kind", ["int64", "string"])
@pytest.mark.parametrize("how", sorted(JOIN_KINDS))
@pytest.mark.parametrize("memory_bytes", [700_000, 3_000_000])
def test_rows_that_wait_where_their_keys_are(tmp_path: Path, kind: str, how: str, memory_bytes: int) -> None:
    """Reading is dear and scanning is cheap: R is swept, and the room takes over memory of the front stage."""
    count = 200_000
    numbers = np.random.default_rng(3).zipf(1.3, count) * 2654435761 % 40_000
    keys = pa.array(numbers) if kind == "int64" else pa.array([f"customer {n:09d}" for n in numbers])
    master = pa.table({"k": keys.unique().slice(0, 10_000), "v": pa.array(range(10_000))})
    stream = pa.table({"k": keys, "id": pa.array(range(count))})
    table = build_store(master, tmp_path / "s", key="k", shards=2)
    found, metrics = lookup(
        table,
        stream,
        how=how,
        memory_bytes=memory_bytes,
        batch_rows=5_000,
        costs=DeviceCosts(HDD2012, table.page_bytes),
    )
    assert metrics.cycles > 1
    if (
        kind == "string"
    ):  # rows of eight bytes are so many to a room that it is not worth stepping from part to part
        assert metrics.scans > 2 * metrics.cycles
    assert found == joined(stream, master, stream_key=["k"], master_key=["k"], how=how)


@pytest.mark.parametrize("kind", ["int64", "string"])
@pytest.mark.parametrize("how", sorted(JOIN_KINDS))
def test_more_rows_than_the_waiting_room_holds(tmp_path: Path, kind: str, how: str) -> None:
    """A full waiting room is drained and the batch goes on, whatever little is left of it."""
    count = 60_000
    numbers = np.random.default_rng(2).integers(0, 30_000, count)
    keys = pa.array(numbers) if kind == "int64" else pa.array([f"customer {n:09d}" for n in numbers])
    master = pa.table({"k": keys.unique().slice(0, 15_000), "v": pa.array(range(15_000))})
    stream = pa.table({"k": keys, "id": pa.array(range(count))})
    table = build_store(master, tmp_path / "s", key="k", shards=2)
    found, metrics = lookup(table, stream, how=how)
    assert metrics.drains > 5
    assert found == joined(stream, master, stream_key=["k"], master_key=["k"], how=how)


def test_one_wide_stream_row_does_not_stop_the_others(tmp_path: Path) -> None:
    """A row of half the waiting room waits alone if need be; those beside it are narrow."""
    master = pa.table({"k": pa.array(range(100)), "v": pa.array(range(100))})
    notes = ["x" * 20_000 if i == 1000 else "n" for i in range(3000)]
    stream = pa.table({"k": pa.array([i % 150 for i in range(3000)]), "note": pa.array(notes)})
    table = build_store(master, tmp_path / "s", key="k")
    found, _ = lookup(table, stream, how="left")
    assert found == joined(stream, master, stream_key=["k"], master_key=["k"], how="left")


def test_a_stream_row_wider_than_the_waiting_room_waits_alone(tmp_path: Path) -> None:
    master = pa.table({"k": pa.array(range(10)), "v": pa.array(range(10))})
    table = build_store(master, tmp_path / "s", key="k")
    notes = ["x" * (1 << 20) if i in (0, 7, 8, 99) else "n" for i in range(100)]
    stream = pa.table({"k": pa.array([i % 15 for i in range(100)]), "note": pa.array(notes)})
    for batch_rows in (1, 9, 100):
        found, metrics = lookup(table, stream, how="left", batch_rows=batch_rows)
        assert found == joined(stream, master, stream_key=["k"], master_key=["k"], how="left")
        assert metrics.budget_peak_bytes <= metrics.budget_bytes


def test_a_stream_row_that_no_queue_can_hold_is_an_error_with_a_hint(tmp_path: Path) -> None:
    table = build_store(pa.table({"k": pa.array([1]), "v": pa.array([1])}), tmp_path / "s", key="k")
    stream = pa.table({"k": pa.array([1]), "note": pa.array(["x" * (1 << 20)])})
    least = minimum_task_bytes(table, [0], "meshjoin")
    with pytest.raises(BudgetError, match="while it waits") as caught:
        lookup(table, stream, algorithm="meshjoin", memory_bytes=least)
    assert "Hint:" in str(caught.value)


@pytest.mark.parametrize("is_dear", [False, True], ids=["looked-up", "swept"])
@pytest.mark.parametrize(
    ("kind", "memory_bytes", "value_bytes"),
    [
        ("int64", 0, 60),
        ("string", 0, 60),
        ("int64", 4 << 20, 60),
        ("string", 4 << 20, 60),
        ("int64", 0, 6000),
        ("string", 4 << 20, 6000),
    ],
)
def test_what_is_allocated_fits_the_budget(
    tmp_path: Path, kind: str, memory_bytes: int, value_bytes: int, is_dear: bool
) -> None:
    """NumPy and Arrow together, beside the batch that is pushed and the output being handed out."""
    count = 100_000 if value_bytes < 100 else 5000
    numbers = np.random.default_rng(3).integers(0, 3 * count // 5, count)
    keys = pa.array(numbers) if kind == "int64" else pa.array([f"customer {n:09d}" for n in numbers])
    distinct = keys.unique()
    master = pa.table({"k": distinct, "v": pa.array(["v" * value_bytes] * len(distinct))})
    table = build_store(master, tmp_path / "s", key="k")
    memory = memory_bytes or minimum_task_bytes(table, [0])
    shape = resolve_shape(
        pa.schema([("k", keys.type)]), table, on="k", how="inner", columns=None, suffix=None
    )
    batches = pa.table({"k": keys}).to_batches(max_chunksize=4000)
    # Beside the budget: the batch that is pushed, its misses, and what is derived from its keys.
    batch_bytes = max(3 * batch.nbytes + 80 * batch.num_rows for batch in batches)
    costs = DeviceCosts(HDD2012, table.page_bytes) if is_dear else ReadCosts()

    def run(*, measured: bool) -> int:
        peak = 0
        if measured:
            tracemalloc.start()
        arrow_before = pa.total_allocated_bytes()
        with start_join(table, shape, memory_bytes=memory, costs=costs) as join:

            def output() -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    yield from join.push(batch)
                yield from join.flush()

            for _ in output():
                # The front stage is mapped memory, which neither of the two sees; it may give some to the room.
                held = join.budget.by_name()["front stage"] + pa.total_allocated_bytes() - arrow_before
                if measured:
                    held += tracemalloc.get_traced_memory()[1]
                    tracemalloc.reset_peak()
                peak = max(peak, held)
            join.finish()
        if measured:
            tracemalloc.stop()
        return peak

    run(measured=False)  # compiles the kernels
    assert run(measured=True) <= memory + batch_bytes


def test_the_front_stage_is_no_larger_than_it_was_told(tmp_path: Path) -> None:
    table = build_store(
        pa.table({"k": pa.array(range(1000)), "v": pa.array(range(1000))}), tmp_path / "s", key="k"
    )
    given_bytes: list[int] = []

    def source(size_bytes: int) -> Region:
        given_bytes.append(size_bytes)
        return Region.private(size_bytes)

    stream = pa.table({"k": pa.array(range(2000))})
    _, metrics = lookup(table, stream, memory_bytes=2 << 20, region_source=source)
    assert len(given_bytes) == 1
    assert metrics.front_stage_bytes <= given_bytes[0] < 2 << 20
    assert metrics.budget_peak_bytes <= 2 << 20


def test_rows_without_room_to_wait_find_what_the_drain_before_them_brought(tmp_path: Path) -> None:
    table = build_store(pa.table({"k": pa.array([7]), "v": pa.array([1])}), tmp_path / "s", key="k")
    stream = pa.table({"k": pa.array([7] * 10_000)})
    found, metrics = lookup(table, stream)
    assert found == Counter({(7, 1): 10_000})
    assert (metrics.drains, metrics.pages_read, metrics.front_stage_keys) == (1, 1, 1)
    assert metrics.hits == 10_000 - metrics.misses > 0


def test_output_batches_stay_small_where_one_stream_row_is_not(tmp_path: Path) -> None:
    """A wide row with many matches is repeated in the output, a few times in each batch."""
    master = pa.table({"k": pa.array([1] * 1000 + [2]), "v": pa.array(range(1001))})
    table = build_store(master, tmp_path / "s", key="k")
    notes = ["w" * 50_000] + ["n"] * 999
    stream = pa.table({"k": pa.array([1] + [2] * 999), "note": pa.array(notes)})
    shape = resolve_shape(stream.schema, table, on="k", how="inner", columns=None, suffix=None)
    for _ in range(2):  # from R, then from the front stage
        with start_join(table, shape, memory_bytes=8 << 20) as join:
            for repeat in range(2):
                sizes = [out.nbytes for out in join.push(stream.to_batches()[0])]
                sizes += [out.nbytes for out in join.flush()]
                assert max(sizes) < 1 << 20, repeat


def test_a_file_system_that_cannot_map_is_read_within_the_same_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = pa.table({"k": pa.array(range(5000)), "v": pa.array(range(5000))})
    table = build_store(master, tmp_path / "s", key="k", page_size=512)
    stream = pa.table({"k": pa.array(range(0, 8000, 3))})

    def refuse(*_: object) -> None:
        raise OSError(errno.ENODEV, "cannot be mapped")

    monkeypatch.setattr(MappedFile, "__init__", refuse)
    monkeypatch.setattr(MappedFile, "__del__", lambda _: None)
    found, metrics = lookup(table, stream)
    assert found == joined(stream, master, stream_key=["k"], master_key=["k"], how="inner")
    assert metrics.budget_peak_bytes <= metrics.budget_bytes
