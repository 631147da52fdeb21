"""Workloads as directories of Parquet files: what is in them, and what they never touch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semistream.errors import ConfigError, StoreError
from semistream.workloads.arrivals import SteadyArrivals
from semistream.workloads.contracts import Workload
from semistream.workloads.files import Output, read_note, write_workload
from semistream.workloads.registry import make


def write(directory: Path, workload: Workload | None = None, **options: object) -> dict[str, int]:
    workload = workload or make("zipf", keys=1_000, row_bytes=40)
    rows = {"table": 0, "stream": 0}
    output = Output(directory=directory, **({"stream_rows": 2_500, "batch_rows": 1_000} | options))  # type: ignore[arg-type]
    for each in write_workload(workload, output, {"kind": "test"}):
        rows[each.side] += each.rows
    return rows


def files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def test_files_hold_the_rows_in_batches(tmp_path: Path) -> None:
    workload = make("zipf", keys=1_000, row_bytes=40)
    assert write(tmp_path / "w") == {"table": 1_000, "stream": 2_500}
    stream = files(tmp_path / "w" / "stream")
    assert [pq.read_metadata(file).num_rows for file in stream] == [1_000, 1_000, 500]
    read = pa.concat_tables(pq.ParquetFile(file).read() for file in stream).combine_chunks()
    assert read.equals(pa.Table.from_batches([next(workload.stream.batches(2_500))]))
    table = pa.concat_tables(pq.ParquetFile(file).read() for file in files(tmp_path / "w" / "table"))
    assert table.combine_chunks().equals(pa.Table.from_batches(workload.table.batches(1_000)))
    times = [file.stat().st_mtime_ns for file in stream]
    assert times == sorted(set(times))
    assert read_note(tmp_path / "w") == {"complete": True, "kind": "test"}


def test_one_side_alone(tmp_path: Path) -> None:
    assert write(tmp_path / "s", table=False) == {"table": 0, "stream": 2_500}
    assert not (tmp_path / "s" / "table").exists()
    assert write(tmp_path / "t", stream=False) == {"table": 1_000, "stream": 0}
    assert not (tmp_path / "t" / "stream").exists()


def test_arrival_times_stand_beside_the_streams_rows(tmp_path: Path) -> None:
    write(tmp_path, arrivals=SteadyArrivals(rows_per_step=10), step_s=0.5)
    read = pa.concat_tables(pq.ParquetFile(file).read() for file in files(tmp_path / "stream"))
    times = read["arrival_s"].to_numpy()
    assert np.allclose(times, (np.arange(2_500) + 0.5) * 0.05)
    assert "arrival_s" not in pq.read_schema(files(tmp_path / "table")[0]).names


def test_what_it_wrote_itself_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "w", batch_rows=100)
    write(tmp_path / "w", table=False)
    assert len(files(tmp_path / "w" / "stream")) == 3
    assert not (tmp_path / "w" / "table").exists(), "an old table does not stay beside a new stream"


def test_what_is_not_its_own_stays_without_overwrite(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("42")
    (tmp_path / "stream").mkdir()
    (tmp_path / "stream" / "notes.txt").touch()
    with pytest.raises(StoreError, match="not empty") as refused:
        write(tmp_path)
    assert "--overwrite" in refused.value.hint
    assert (tmp_path / "stream" / "notes.txt").exists()
    write(tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "42"
    assert not (tmp_path / "stream" / "notes.txt").exists()
    with pytest.raises(StoreError, match="is a file"):
        write(tmp_path / "thesis.txt", overwrite=True)


def test_an_interrupted_run_is_known_as_its_own(tmp_path: Path) -> None:
    output = Output(directory=tmp_path / "w", stream_rows=500, batch_rows=10_000)
    running = write_workload(make("zipf", keys=200_000), output, {})
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert read_note(tmp_path / "w") == {"complete": False}
    assert not list((tmp_path / "w" / "table").glob("*unfinished*.parquet"))
    write(tmp_path / "w")
    assert read_note(tmp_path / "w") == {"complete": True, "kind": "test"}


def test_a_bad_input_leaves_what_is_there(tmp_path: Path) -> None:
    write(tmp_path / "w")
    bad = tmp_path / "reports"
    bad.write_text("no report\n")
    with pytest.raises(StoreError, match="line 1"):
        write(tmp_path / "w", make("cloud", stream_files=(str(bad),)))
    assert read_note(tmp_path / "w") == {"complete": True, "kind": "test"}
    assert len(files(tmp_path / "w" / "stream")) == 3


def test_a_damaged_note_is_told(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "_workload.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        write(tmp_path)


def test_a_source_without_rows_leaves_its_columns(tmp_path: Path) -> None:
    class Nothing:
        schema = pa.schema([("key", pa.int64())])
        rows = None

        def batches(self, rows: int, *, first: int = 0) -> Iterator[pa.RecordBatch]:
            return iter(())

    workload = Workload(stream=Nothing(), table=Nothing(), stream_key="key", table_key="key")
    assert write(tmp_path, workload) == {"table": 0, "stream": 0}
    assert pq.read_table(files(tmp_path / "table")[0]).schema == Nothing.schema


def test_wide_rows_come_in_small_batches(tmp_path: Path) -> None:
    workload = make("zipf", keys=50, row_bytes=1 << 20)
    sizes = [each.rows for each in write_workload(workload, Output(directory=tmp_path, stream=False), {})]
    assert sum(sizes) == 50
    assert max(sizes) <= 32


@pytest.mark.parametrize("bad", [{"stream_rows": 0}, {"batch_rows": 0}])
def test_bad_sizes_are_refused(bad: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Output(directory=tmp_path, **bad)
