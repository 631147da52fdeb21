"""The generated table and stream: widths, keys, file sets, and reuse of what is already there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from semistream.errors import ConfigError
from semistream.workloads.tables import (
    KEY,
    STREAM_SCHEMA,
    TABLE_ROW_BYTES,
    TABLE_SCHEMA,
    StreamConfig,
    TableConfig,
    stream_batch,
    table_batches,
    write_stream,
    write_table,
)
from semistream.workloads.zipf import ZipfConfig, ZipfKeys


def test_rows_hold_about_120_bytes_of_values() -> None:
    table = pa.Table.from_batches(table_batches(TableConfig(rows=50_000)))
    total = 0.0
    for column in table.columns:
        if pa.types.is_string(column.type):
            total += pc.sum(pc.binary_length(column)).as_py()
        else:
            # A decimal(15,2) fits 8 bytes; Arrow spends 16.
            total += min(8, column.type.bit_width // 8) * len(column)
    assert total / table.num_rows == pytest.approx(TABLE_ROW_BYTES, rel=0.01)


def test_keys_are_dense_or_strided_and_blocks_do_not_depend_on_where_one_starts() -> None:
    config = TableConfig(rows=260_000, key_stride=3)
    table = pa.Table.from_batches(table_batches(config))
    assert table.schema == TABLE_SCHEMA
    table.validate(full=True)
    assert np.array_equal(table[KEY].to_numpy(), np.arange(260_000) * 3)
    later = pa.Table.from_batches(table_batches(config, first_row=125_000, rows=130_000))
    assert later.equals(table.slice(125_000, 130_000))
    with pytest.raises(ConfigError):
        next(table_batches(config, first_row=5))


def test_decimals_are_the_cents_drawn() -> None:
    balance = pa.Table.from_batches(table_batches(TableConfig(rows=1000)))["balance"]
    low, high = pc.min_max(balance.cast(pa.float64())).as_py().values()
    assert -1000 < low < 0
    assert 9000 < high < 10_000


def test_table_files_hold_the_table_and_are_reused(tmp_path: Path) -> None:
    config = TableConfig(rows=300_000, rows_per_file=125_000)
    files = write_table(config, tmp_path / "t")
    assert [pq.read_metadata(file).num_rows for file in files] == [125_000, 125_000, 50_000]
    assert pq.read_table(tmp_path / "t").equals(pa.Table.from_batches(table_batches(config)))
    before = [file.stat().st_mtime_ns for file in files]
    assert [file.stat().st_mtime_ns for file in write_table(config, tmp_path / "t")] == before
    smaller = write_table(TableConfig(rows=1000), tmp_path / "t")
    assert [pq.read_metadata(file).num_rows for file in smaller] == [1000]


def test_a_file_set_is_one_batch_and_times_follow_the_batches(tmp_path: Path) -> None:
    config = StreamConfig(keys=ZipfConfig(keys=1000), batch_rows=101, batches=3, first_batch=5, key_stride=2)
    sets = write_stream(config, tmp_path / "s")
    keys = ZipfKeys(config.keys)
    for number, files in enumerate(sets):
        assert len(files) == config.files_per_batch
        read = pa.concat_tables([pq.read_table(file, schema=STREAM_SCHEMA) for file in files])
        wanted = pa.Table.from_batches([stream_batch(config, keys, 5 + number)])
        assert read.equals(wanted)
        assert read.num_rows == 101
    assert set(pc.unique(wanted[KEY]).to_pylist()) <= set(range(0, 2000, 2))
    times = [file.stat().st_mtime_ns // 10**6 for files in sets for file in files]
    assert times == list(range(times[0], times[0] + 6))


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(ConfigError):
        TableConfig(rows=0)
    with pytest.raises(ConfigError):
        TableConfig(rows=1 << 40, key_stride=1 << 30)
    with pytest.raises(ConfigError):
        StreamConfig(keys=ZipfConfig(keys=10), batch_rows=1, batches=1)
