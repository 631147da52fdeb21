"""Every kind of workload keeps the contract; found by itself, so that a new kind is tested, too."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest

from semistream.errors import ConfigError
from semistream.workloads.contracts import RowSource, Workload
from semistream.workloads.registry import KINDS, make

SMALL: dict[str, dict[str, object]] = {
    "tpch": {"scale": 0.002},
    "cloud": {"table_rows": 2_000, "stations": 50},
}


def small(kind: str, **options: object) -> Workload:
    return make(kind, **(SMALL.get(kind, {"keys": 2_000}) | options))


def rows(source: RowSource, count: int, size: int, *, first: int = 0) -> pa.Table:
    batches = islice(source.batches(size, first=first), -(-count // size))
    return pa.Table.from_batches(batches, schema=source.schema).slice(0, count).combine_chunks()


@pytest.mark.parametrize("kind", KINDS)
def test_the_contract(kind: str) -> None:
    workload, again = small(kind), small(kind)
    for source, same, key in (
        (workload.stream, again.stream, workload.stream_key),
        (workload.table, again.table, workload.table_key),
    ):
        assert source.schema.field(key).nullable is False
        some = rows(source, 1_500, 700)
        some.validate(full=True)
        assert some.num_rows == 1_500 or some.num_rows == source.rows
        assert some.equals(rows(same, 1_500, 1_500)), "equal configs, equal rows, whatever the batches"
        assert some.slice(333).combine_chunks().equals(rows(same, some.num_rows - 333, 200, first=333))
        sizes = [batch.num_rows for batch in islice(source.batches(400), 3)]
        assert all(size == 400 for size in sizes[:-1])
        if source.rows is not None:
            assert sum(batch.num_rows for batch in source.batches(999)) == source.rows
            assert list(source.batches(10, first=source.rows)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_makes_another_stream(kind: str) -> None:
    skew = {"skew": 1.0} if kind == "tpch" else {}
    one, other = (rows(small(kind, seed=seed, **skew).stream, 1_000, 500) for seed in (1, 2))
    key = small(kind).stream_key
    assert not one[key].equals(other[key])


@pytest.mark.parametrize("kind", KINDS)
def test_a_negative_skew_is_refused(kind: str) -> None:
    with pytest.raises(ConfigError, match="exponent") as refused:
        small(kind, skew=-0.5)
    assert refused.value.hint


def test_every_kind_is_described() -> None:
    for name, kind in KINDS.items():
        assert kind.name == name
        assert kind.summary
        names = [each.name for each in fields(kind.options)]
        assert "seed" in names
        assert "skew" in names
        assert all(each.metadata["help"] for each in fields(kind.options))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="no workload 'zip'") as refused:
        make("zip")
    assert "zipf, bursty" in refused.value.hint
    with pytest.raises(ConfigError, match="no option exponent") as refused:
        make("zipf", exponent=1.0)
    assert "skew" in refused.value.hint


def test_many_to_many_exact_and_random() -> None:
    exact = make("many-to-many", keys=1_000, rows_per_key=3, absent=0.2, skew=0.0)
    table, stream = rows(exact.table, 3_000, 3_000), rows(exact.stream, 50_000, 50_000)
    per_key = np.bincount(table["key"].to_numpy())
    assert set(per_key[::2].tolist()) == {3}
    missing = ~np.isin(stream["key"].to_numpy(), table["key"].to_numpy())
    assert missing.mean() == pytest.approx(0.2, abs=0.005)

    random = make("many-to-many", keys=20_000, rows_per_key=1, repetition="random", skew=0.0)
    table, stream = rows(random.table, 20_000, 20_000), rows(random.stream, 50_000, 50_000)
    missing = ~np.isin(stream["key"].to_numpy(), table["key"].to_numpy())
    assert missing.mean() == pytest.approx(np.exp(-1), abs=0.02), (
        "as many rows as keys, drawn with repetition"
    )
    assert np.bincount(table["key"].to_numpy()).max() > 3

    with pytest.raises(ConfigError, match="absent"):
        make("many-to-many", repetition="random", absent=0.1)
    with pytest.raises(ConfigError, match="repetition"):
        make("many-to-many", repetition="never")


@pytest.mark.parametrize("kind", ["zipf", "drift", "locality", "many-to-many", "cloud"])
def test_memory_is_that_of_a_batch(kind: str) -> None:
    """300,000 rows of 128 bytes are 38 MB; what is held at any time must be far less."""
    workload = small(
        kind, row_bytes=128, **({"table_rows": 300_000} if kind == "cloud" else {"keys": 300_000})
    )
    for source in (workload.stream, workload.table):
        next(source.batches(5_000))  # compile, and load what is loaded once
        tracemalloc.start()
        try:
            arrow_before, seen = pa.total_allocated_bytes(), 0
            for batch in islice(source.batches(5_000), 60):
                seen += batch.num_rows
                assert pa.total_allocated_bytes() - arrow_before < 4 << 20
            assert seen == 300_000
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()
