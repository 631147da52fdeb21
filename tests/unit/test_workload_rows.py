"""Rows of a wanted size that depend on their numbers alone, however they are cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semistream.errors import ConfigError
from semistream.workloads.contracts import BLOCK_ROWS, Cutter, KeyReader
from semistream.workloads.synthetic import (
    TABLE_SCHEMA,
    MasterConfig,
    MasterRows,
    StreamRows,
    characters,
)
from semistream.workloads.zipf import ZipfConfig, ZipfKeys


def value_bytes(table: pa.Table) -> float:
    """The bytes of the values, without offsets and null bits, of an average row."""
    total = 0
    for column in table.columns:
        if pa.types.is_string(column.type):
            total += pc.sum(pc.binary_length(column)).as_py()
        else:
            total += column.type.bit_width // 8 * len(column)
    return total / table.num_rows


@pytest.mark.parametrize("row_bytes", [12, 13, 120, 128, 1000])
def test_table_rows_have_the_wanted_size(row_bytes: int) -> None:
    rows = MasterRows(MasterConfig(keys=500, row_bytes=row_bytes)).source
    table = pa.Table.from_batches(rows.batches(200))
    table.validate(full=True)
    assert table.schema == TABLE_SCHEMA
    assert value_bytes(table) == row_bytes


@pytest.mark.parametrize("row_bytes", [16, 20, 138])
def test_stream_rows_have_the_wanted_size(row_bytes: int) -> None:
    rows = StreamRows(keys=ZipfKeys(ZipfConfig(keys=50)), row_bytes=row_bytes).read(7, 300)
    rows.validate(full=True)
    assert value_bytes(pa.Table.from_batches([rows])) == row_bytes
    assert rows.column("seq").to_pylist() == list(range(7, 307))


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_exact_repetition_gives_every_key_its_rows(order: str) -> None:
    config = MasterConfig(keys=700, rows_per_key=3, order=order, key_stride=2)  # type: ignore[arg-type]
    table = pa.Table.from_batches(MasterRows(config).source.batches(400))
    pairs = np.sort(table["key"].to_numpy() * 10 + table["copy"].to_numpy())
    assert np.array_equal(pairs, (np.arange(700)[:, None] * 20 + np.arange(3)).ravel())
    in_order = bool((np.diff(table["key"].to_numpy()) >= 0).all())
    assert in_order == (order == "sorted")


def test_random_repetition_is_a_draw_with_repetition() -> None:
    table = MasterRows(MasterConfig(keys=20_000, rows_per_key=2, repetition="random"))
    per_key = np.bincount(table.keys(np.arange(40_000)), minlength=20_000)
    # The rows of a key follow Poisson's law with mean 2, in the limit.
    for rows, share in ((0, 0.1353), (1, 0.2707), (2, 0.2707), (3, 0.1804)):
        assert np.mean(per_key == rows) == pytest.approx(share, abs=0.01)
    assert per_key[:10_000].sum() == pytest.approx(20_000, abs=500)


def test_uniform_keys_reach_the_whole_of_a_huge_domain() -> None:
    keys = (1 << 40) - 7
    drawn = MasterRows(MasterConfig(keys=keys, repetition="random")).keys(np.arange(100_000))
    assert drawn.min() >= 0
    assert drawn.max() < keys
    tenths = np.bincount(drawn * 10 // keys, minlength=10)
    assert np.abs(tenths - 10_000).max() < 500
    assert np.unique(drawn).size == drawn.size


@settings(max_examples=30)
@given(
    first=st.integers(0, 3 * BLOCK_ROWS),
    sizes=st.lists(st.integers(1, BLOCK_ROWS + 5), min_size=1, max_size=4),
    seed=st.integers(0, 2**62),
)
def test_any_cut_gives_the_same_stream(first: int, sizes: list[int], seed: int) -> None:
    zipf = ZipfKeys(ZipfConfig(keys=1000, seed=seed))
    stream = StreamRows(keys=zipf, seed=seed)
    at, pieces = first, []
    for size in sizes:
        pieces.append(stream.read(at, size))
        at += size
    again = StreamRows(keys=zipf, seed=seed).read(first, sum(sizes))
    assert pa.Table.from_batches(pieces).combine_chunks().equals(pa.Table.from_batches([again]))


@settings(max_examples=30)
@given(rows=st.integers(1, 2000), first=st.integers(0, 2000), shuffled=st.booleans(), seed=st.integers(0, 99))
def test_any_cut_gives_the_same_table(rows: int, first: int, shuffled: bool, seed: int) -> None:
    config = MasterConfig(keys=500, rows_per_key=3, order="shuffled" if shuffled else "sorted", seed=seed)
    source = MasterRows(config).source
    whole = pa.Table.from_batches(source.batches(1500)).combine_chunks()
    cut = pa.Table.from_batches(source.batches(rows, first=first), schema=TABLE_SCHEMA).combine_chunks()
    assert cut.equals(whole.slice(first).combine_chunks())


def test_a_row_can_be_taken_without_the_others() -> None:
    table = MasterRows(MasterConfig(keys=1_000_000_000, rows_per_key=4))
    some = np.array([3_999_999_999, 0, 17, 17])
    taken = table.take(some)
    assert taken.column("key").to_pylist() == [999_999_999, 0, 4, 4]
    assert taken.column("copy").to_pylist() == [3, 0, 1, 1]
    payload = taken.column("payload").to_pylist()
    assert payload[2] == payload[3]
    assert len(set(payload)) == 3


def test_seeds_make_other_rows() -> None:
    one, other = (characters(np.arange(5), 40, seed=seed).to_pylist() for seed in (1, 2))
    assert not set(one) & set(other)


def test_characters_are_spread_evenly() -> None:
    text = "".join(characters(np.arange(4000), 64, seed=3).to_pylist()).encode()
    counts = np.bincount(np.frombuffer(text, dtype=np.uint8))
    counts = counts[counts > 0]
    assert counts.size == 64
    assert np.abs(counts - 4000).max() < 6 * 63  # six standard deviations


def test_a_block_is_drawn_once_while_it_is_read_in_pieces() -> None:
    class Counted:
        drawn = 0

        def keys(self, *, batch: int, rows: int) -> np.ndarray:
            self.drawn += 1
            return np.full(rows, batch, dtype=np.int64)

    source = Counted()
    reader = KeyReader(source)
    for at in range(0, BLOCK_ROWS, 1000):
        reader.read(at, 1000)
    assert source.drawn == 2


@given(
    sizes=st.lists(st.integers(0, 20), max_size=8),
    wanted=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    skipped=st.integers(0, 40),
)
def test_the_cutter_against_a_list(sizes: list[int], wanted: list[int], skipped: int) -> None:
    schema = pa.schema([("n", pa.int64())])
    numbers = list(range(sum(sizes)))
    ends = np.cumsum([0, *sizes])
    batches = (pa.RecordBatch.from_pydict({"n": numbers[a:b]}, schema=schema) for a, b in pairwise(ends))
    cutter = Cutter(iter(batches), schema)
    cutter.skip(skipped)
    at = min(skipped, len(numbers))
    for rows in wanted:
        assert cutter.take(rows).column("n").to_pylist() == numbers[at : at + rows]
        at = min(at + rows, len(numbers))
    assert [n for batch in cutter.all(7) for n in batch.column("n").to_pylist()] == numbers[at:]


@pytest.mark.parametrize(
    "bad",
    [
        {"keys": 0},
        {"keys": 10, "rows_per_key": 0},
        {"keys": 1 << 39, "rows_per_key": 4},
        {"keys": 10, "row_bytes": 11},
        {"keys": 10, "row_bytes": 1 << 21},
        {"keys": 10, "key_stride": 0},
        {"keys": 10, "seed": -1},
        {"keys": 10, "order": "random"},
        {"keys": 10, "repetition": "some"},
    ],
)
def test_bad_tables_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as refused:
        MasterConfig(**bad)  # type: ignore[arg-type]
    assert refused.value.hint


def test_bad_streams_and_batches_are_refused() -> None:
    keys = ZipfKeys(ZipfConfig(keys=10))
    with pytest.raises(ConfigError, match="stream_row_bytes"):
        StreamRows(keys=keys, row_bytes=15)
    source = MasterRows(MasterConfig(keys=10)).source
    with pytest.raises(ConfigError, match="at least one row"):
        next(source.batches(0))
    with pytest.raises(ConfigError, match="first row"):
        next(source.batches(1, first=-1))
    with pytest.raises(ConfigError, match="do not fit one batch"):
        characters(np.zeros(1 << 20, dtype=np.int64), 1 << 11, seed=0)
