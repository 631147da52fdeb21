"""Shard files: what was written is found; what was damaged is noticed, wherever it was damaged."""

from __future__ import annotations

import io
import itertools
import os
import tracemalloc
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from tests.oracle import joined
from tests.stores import flip, lookup, shard_files

from semistream.core.keys import KeyEncoder
from semistream.core.rows import RowLayout
from semistream.errors import BudgetError, ConfigError, CorruptionError, SchemaError, StoreError
from semistream.joins import minimum_task_bytes, resolve_shape, start_join
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.master_table.shard_file import ShardWriter, row_limit_bytes, short_bytes

KINDS = [pa.int64(), pa.string()]


def keys_of(kind: pa.DataType, numbers: list[int]) -> pa.Array:
    return pa.array(numbers if kind == pa.int64() else [f"key {n:04d}" for n in numbers], kind)


def small_table(kind: pa.DataType, keys: int = 8) -> pa.Table:
    numbers = [2 * (i // 2) for i in range(2 * keys)]  # two rows each; odd numbers are absent
    notes = [f"note {i}" * (i % 4) for i in range(2 * keys)]
    return pa.table({"k": keys_of(kind, numbers), "note": pa.array(notes), "n": pa.array(range(2 * keys))})


def all_keys(kind: pa.DataType, keys: int = 8) -> pa.Table:
    return pa.table({"k": keys_of(kind, list(range(2 * keys + 1))), "id": pa.array(range(2 * keys + 1))})


def writer(kind: pa.DataType, page_bytes: int = 512) -> ShardWriter:
    layout = RowLayout(pa.schema([("v", pa.string())]), short_bytes(page_bytes))
    return ShardWriter(
        io.BytesIO(), page_bytes=page_bytes, layout=layout, fixed=KeyEncoder([kind]).fixed, seed=1
    )


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("page_size", [512, 4096, "64 KiB", "128 KiB", "16 MiB"])
def test_pages_of_every_size(tmp_path: Path, kind: pa.DataType, page_size: int | str) -> None:
    master, stream = small_table(kind, 300), all_keys(kind, 300)
    table = build_store(master, tmp_path / "s", key="k", page_size=page_size)
    assert table.rows == 600
    assert sum(table.verify()) == table.pages
    assert sum(file.stat().st_size for file in shard_files(table.path)) == table.bytes
    found, _ = lookup(table, stream, how="left")
    assert found == joined(stream, master, stream_key=["k"], master_key=["k"], how="left")


@pytest.mark.parametrize("page_size", [0, 1, 256, 513, 3000, 1 << 25, "1 KB"])
def test_other_page_sizes_are_refused(tmp_path: Path, page_size: int | str) -> None:
    with pytest.raises((ConfigError, BudgetError), match="page_size") as caught:
        build_store(small_table(KINDS[0]), tmp_path / "s", key="k", page_size=page_size)
    assert "Hint:" in str(caught.value)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("shards", [0, -1, 10_001])
def test_shard_counts_out_of_range_are_refused(tmp_path: Path, shards: int) -> None:
    with pytest.raises(ConfigError, match="shards="):
        build_store(small_table(KINDS[0]), tmp_path / "s", key="k", shards=shards)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("batches", [[[1, 2, 4, 3]], [[1, 5], [4]], [[], [7], [], [6]]])
def test_keys_out_of_order_are_refused(kind: pa.DataType, batches: list[list[int]]) -> None:
    out = writer(kind)
    encoder = KeyEncoder([kind])
    *before, last = batches
    values = [pa.array(["v"] * len(last), pa.string())]
    for numbers in before:
        out.write(encoder.encode([keys_of(kind, numbers)]), [pa.array(["v"] * len(numbers), pa.string())])
    with pytest.raises(StoreError, match="below the one before"):
        out.write(encoder.encode([keys_of(kind, last)]), values)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("page_bytes", [512, 8192, 1 << 17])
def test_the_widest_row_fits_and_one_byte_more_does_not(
    tmp_path: Path, kind: pa.DataType, page_bytes: int
) -> None:
    key = keys_of(kind, [1])

    def store(size: int, name: str) -> MasterTable:
        return build_store(
            pa.table({"k": key, "v": ["x" * size]}), tmp_path / name, key="k", page_size=page_bytes
        )

    low, high = 1, page_bytes  # the first fits, the last does not
    store(low, "low")
    while high - low > 1:
        middle = (low + high) // 2
        try:
            store(middle, f"{middle}")
            low = middle
        except SchemaError:
            high = middle
    # Overhead: key, lengths, checksums; all in all a few dozen bytes.
    assert row_limit_bytes(page_bytes) - 40 <= low < page_bytes
    found, _ = lookup(MasterTable.open(tmp_path / f"{low}"), pa.table({"k": key}))
    assert sum(found.values()) == 1
    with pytest.raises(SchemaError, match="a row takes") as caught:
        store(high, "wide")
    assert not (tmp_path / "wide").exists()
    hint = str(caught.value).split('page_size="')[1].split('"')[0]
    wide = build_store(pa.table({"k": key, "v": ["x" * high]}), tmp_path / "wide", key="k", page_size=hint)
    found, _ = lookup(wide, pa.table({"k": key}))
    assert sum(found.values()) == 1


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_flipped_bit_pattern_is_noticed_by_verify(tmp_path: Path, kind: pa.DataType) -> None:
    table = build_store(small_table(kind), tmp_path / "s", key="k", page_size=512)
    (file,) = shard_files(table.path)
    for at in range(file.stat().st_size):
        mask = 1 << (at % 8)
        flip(file, at, mask)
        with pytest.raises(CorruptionError) as caught:
            list(table.verify())
        assert str(file) in str(caught.value)
        if at < table.pages * 512:
            assert f"page {at // 512} of" in str(caught.value)
        flip(file, at, mask)
    assert sum(table.verify()) == table.pages


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_no_flipped_byte_ever_changes_the_answer(tmp_path: Path, kind: pa.DataType, mask: int) -> None:
    """A join may overlook damage that it does not need; what it says is right, or it fails."""
    master, stream = small_table(kind), all_keys(kind)
    table = build_store(master, tmp_path / "s", key="k", page_size=512)
    expected = joined(stream, master, stream_key=["k"], master_key=["k"], how="left")
    (file,) = shard_files(table.path)
    messages: list[str] = []
    for at in range(file.stat().st_size):
        flip(file, at, mask)
        try:
            found, _ = lookup(table, stream, how="left")
        except CorruptionError as error:
            messages.append(str(error))
        else:
            assert found == expected, f"byte {at}"
        flip(file, at, mask)
    assert all(str(file) in message and "page" in message for message in messages)
    assert len(messages) > file.stat().st_size / 4


def test_pages_exchanged_within_a_file_are_noticed(tmp_path: Path) -> None:
    table = build_store(small_table(KINDS[0], 30), tmp_path / "s", key="k", page_size=512)
    (file,) = shard_files(table.path)
    content = file.read_bytes()
    assert table.pages >= 3
    file.write_bytes(content[512:1024] + content[:512] + content[1024:])
    with pytest.raises(CorruptionError, match="page 0"):
        list(table.verify())
    with pytest.raises(CorruptionError, match="page"):
        lookup(table, all_keys(KINDS[0], 30), how="left")


def test_a_page_of_another_file_is_noticed(tmp_path: Path) -> None:
    # The same table twice: pages differ by their file's seed only.
    here = build_store(small_table(KINDS[0], 30), tmp_path / "here", key="k", page_size=512)
    there = build_store(small_table(KINDS[0], 30), tmp_path / "there", key="k", page_size=512)
    (file,), (other,) = shard_files(here.path), shard_files(there.path)
    file.write_bytes(other.read_bytes()[:512] + file.read_bytes()[512:])
    with pytest.raises(CorruptionError, match="page 0"):
        lookup(here, all_keys(KINDS[0], 30), how="left")


@pytest.mark.parametrize("left", [0, 1, 511, 512, 700, -300, -1])
def test_a_truncated_file_is_noticed_at_opening(tmp_path: Path, left: int) -> None:
    table = build_store(small_table(KINDS[0], 30), tmp_path / "s", key="k", page_size=512)
    (file,) = shard_files(table.path)
    os.truncate(file, left if left >= 0 else file.stat().st_size + left)
    with pytest.raises(CorruptionError, match="page") as caught:
        lookup(table, all_keys(KINDS[0], 30))
    assert str(file) in str(caught.value)
    assert "Hint:" in str(caught.value)


def test_a_file_with_something_appended_is_noticed(tmp_path: Path) -> None:
    table = build_store(small_table(KINDS[0]), tmp_path / "s", key="k", page_size=512)
    with shard_files(table.path)[0].open("ab") as file:
        file.write(b"more")
    with pytest.raises(CorruptionError, match="instead of"):
        lookup(table, all_keys(KINDS[0]))


def test_a_file_truncated_while_a_join_reads_it_is_noticed(tmp_path: Path) -> None:
    table = build_store(small_table(KINDS[0], 3000), tmp_path / "s", key="k", page_size=512)
    stream = all_keys(KINDS[0], 3000)
    shape = resolve_shape(stream.schema, table, on="k", how="left", columns=None, suffix=None)
    (file,) = shard_files(table.path)
    with start_join(table, shape, memory_bytes=minimum_task_bytes(table, [0])) as join:
        list(join.push(stream.to_batches()[0].slice(0, 10)))
        list(join.flush())
        os.truncate(file, 1024)
        with pytest.raises(CorruptionError, match="page") as caught:
            list(itertools.chain(join.push(stream.to_batches()[0]), join.flush()))
        assert str(file) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    table = build_store(small_table(KINDS[0]), tmp_path / "s", key="k", shards=2)
    file = shard_files(table.path)[1]
    file.unlink()
    with pytest.raises(CorruptionError, match="missing") as caught:
        lookup(table, all_keys(KINDS[0]))
    assert str(file) in str(caught.value)


def test_empty_shards_are_files_too(tmp_path: Path) -> None:
    table = build_store(small_table(KINDS[0], 1), tmp_path / "s", key="k", shards=7)
    assert len(shard_files(table.path)) == 7
    assert table.rows == 2
    assert sum(table.verify()) == table.pages == 1
    found, _ = lookup(table, all_keys(KINDS[0], 1))
    assert sum(found.values()) == 2


def test_rows_may_be_written_in_batches_of_any_size(tmp_path: Path) -> None:
    kind = pa.string()
    encoder = KeyEncoder([kind])
    numbers = [i // 3 for i in range(500)]
    contents = []
    for step in (1, 7, 500):
        file = io.BytesIO()
        layout = RowLayout(pa.schema([("v", pa.string())]), 2)
        out = ShardWriter(file, page_bytes=512, layout=layout, fixed=False, seed=9)
        for at in range(0, 500, step):
            part = numbers[at : at + step]
            values = pa.array([f"value {i}" for i in range(at, at + len(part))])
            out.write(encoder.encode([keys_of(kind, part)]), [values])
        info = out.close("name")
        assert (info.rows, info.bytes) == (500, len(file.getvalue()))
        contents.append(file.getvalue())
    assert contents[0] == contents[1] == contents[2]


def test_a_writer_needs_no_more_memory_for_more_rows() -> None:
    kind, encoder = pa.int64(), KeyEncoder([pa.int64()])

    class Sink(io.RawIOBase):
        def write(self, content: object) -> int:  # type: ignore[override]
            return memoryview(content).nbytes  # type: ignore[arg-type]

    out = ShardWriter(
        Sink(), page_bytes=8192, layout=RowLayout(pa.schema([("v", pa.string())]), 2), fixed=True, seed=1
    )  # type: ignore[arg-type]
    values = pa.array(["x" * 100] * 10_000)
    peaks = []
    for step in range(12):
        tracemalloc.start()
        out.write(encoder.encode([pa.array(np.arange(10_000) + 10_000 * step, kind)]), [values])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 4 << 20


def test_a_file_that_says_it_has_no_checksums_is_not_believed(tmp_path: Path) -> None:
    with patch("semistream.master_table.builder.secrets.randbelow", return_value=2**64 - 1):
        table = build_store(small_table(pa.int64()), tmp_path / "s", key="k")
    with pytest.raises(CorruptionError, match="footer"):
        table.open_shard(0)
