"""A workload as Parquet files: a directory with `table/` and `stream/`, and a note of what made them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.errors import ConfigError, StoreError
from semistream.workloads.arrivals import Arrivals, with_arrival, with_arrivals
from semistream.workloads.contracts import RowSource, Workload

NOTE = "_workload.json"
TABLE, STREAM = "table", "stream"
# Spark takes files in the order of their times; fixed ones make that order a part of the data.
_FIRST_FILE_TIME_S = 1_600_000_000
_BATCH_ROWS = 65_536
_BATCH_BYTES = 32 << 20
_SAMPLE_ROWS = 16


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where and how to write.

    Parameters
    ----------
    stream_rows: rows of the stream to write; less where it ends before.
    batch_rows: rows of a file, so that a reader with one file per trigger gets micro-batches of this size.
    arrivals: a schedule, to write the time of arrival beside every row.
    """

    directory: Path
    stream_rows: int = 1_000_000
    batch_rows: int = 100_000
    table: bool = True
    stream: bool = True
    arrivals: Arrivals | None = None
    step_s: float = 1.0
    overwrite: bool = False

    def __post_init__(self) -> None:
        if min(self.stream_rows, self.batch_rows) < 1:
            raise ConfigError(
                f"rows and batch rows must be at least 1, got {self.stream_rows} and {self.batch_rows}",
                hint="leave one side out with --only",
            )


@dataclass(frozen=True, kw_only=True)
class Written:
    """Rows that have just been written to one side, and what that side has in all, if known."""

    side: str
    rows: int
    total: int | None


def write_workload(workload: Workload, output: Output, note: Mapping[str, Any]) -> Iterator[Written]:
    """Writes both sides, and tells after every batch; the note is written last, and holds `note`.

    Guarantee: nothing but what an earlier call has written here is replaced, unless output.overwrite says
    so, and then only `table/`, `stream/` and the note. Files get their names when they are complete.
    Memory: one batch of at most 65,536 rows and about 32 MiB, and what Parquet keeps of a row group.
    """
    sides = [
        (name, source, _limit(source, rows))
        for name, wanted, source, rows in (
            (TABLE, output.table, workload.table, None),
            (STREAM, output.stream, workload.stream, output.stream_rows),
        )
        if wanted
    ]
    # What is wrong with an input shows before anything is removed.
    batch_rows = [_fitting_rows(source) for _, source, _ in sides]
    _clear(output)
    for (side, source, rows), count in zip(sides, batch_rows, strict=True):
        batches, schema = _first_rows(source.batches(count), rows), source.schema
        if side == STREAM and output.arrivals is not None:
            batches, schema = (
                with_arrivals(batches, output.arrivals, step_s=output.step_s),
                with_arrival(schema),
            )
        files = _Files(output.directory / side, output.batch_rows)
        for batch in batches:
            files.write(batch)
            yield Written(side=side, rows=batch.num_rows, total=rows)
        files.close(schema)
    _write_note(output.directory, {"complete": True, **note})


def read_note(directory: Path) -> dict[str, Any] | None:
    """What wrote the workload at `directory`, or None if there is none."""
    path = directory / NOTE
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise StoreError(f"{path} is damaged: {error}", hint="remove it, and pass --overwrite") from error
    return found if isinstance(found, dict) else None


def _limit(source: RowSource, rows: int | None) -> int | None:
    known = [count for count in (source.rows, rows) if count is not None]
    return min(known, default=None)


def _fitting_rows(source: RowSource) -> int:
    """Rows of a batch that take at most about 32 MiB, by the size of the first ones."""
    sample = next(source.batches(_SAMPLE_ROWS), None)
    if sample is None:
        return _BATCH_ROWS
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * sample.num_rows // sample.nbytes))


def _first_rows(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """The first `rows` rows, or all."""
    left = rows
    for batch in batches:
        kept = batch if left is None else batch.slice(0, left)
        yield kept
        if left is not None:
            left -= kept.num_rows
            if left == 0:
                return


def _clear(output: Output) -> None:
    directory = output.directory
    if directory.exists() and not directory.is_dir():
        raise StoreError(f"{directory} is a file", hint="name a directory, or one that does not exist yet")
    foreign = directory.exists() and read_note(directory) is None and any(directory.iterdir())
    if foreign and not output.overwrite:
        raise StoreError(
            f"{directory} is not empty, and not the directory of an earlier workload",
            hint=f"choose another one; --overwrite replaces {TABLE}/ and {STREAM}/ in it, and nothing else",
        )
    directory.mkdir(parents=True, exist_ok=True)
    # From here on the directory is known as ours, also if we are killed.
    _write_note(directory, {"complete": False})
    for side in (TABLE, STREAM):
        if (directory / side).exists():
            shutil.rmtree(directory / side)


def _write_note(directory: Path, note: Mapping[str, Any]) -> None:
    passing = directory / f"{NOTE}.tmp"
    passing.write_text(json.dumps(note, indent=2) + "\n")
    os.replace(passing, directory / NOTE)


class _Files:
    """Parquet files of `rows_per_file` rows, named and timed in order."""

    def __init__(self, directory: Path, rows_per_file: int) -> None:
        directory.mkdir()
        self._directory, self._rows_per_file = directory, rows_per_file
        self._number, self._rows = 0, 0
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            if self._writer is None:
                self._open(batch.schema)
            piece = batch.slice(0, self._rows_per_file - self._rows)
            self._writer.write_batch(piece)  # type: ignore[union-attr]
            self._rows += piece.num_rows
            batch = batch.slice(piece.num_rows)
            if self._rows == self._rows_per_file:
                self._finish()

    def close(self, schema: pa.Schema) -> None:
        """A source without rows leaves one file without rows, which still has the columns."""
        if self._writer is None and self._number == 0:
            self._open(schema)
        if self._writer is not None:
            self._finish()

    def _open(self, schema: pa.Schema) -> None:
        # Names that begin with an underscore are no data to readers of directories.
        self._writer = pq.ParquetWriter(
            self._directory / "_unfinished", schema, store_decimal_as_integer=True, use_dictionary=False
        )

    def _finish(self) -> None:
        assert self._writer is not None
        self._writer.close()
        path = self._directory / f"part-{self._number:07d}.parquet"
        os.replace(self._directory / "_unfinished", path)
        time_ns = _FIRST_FILE_TIME_S * 10**9 + self._number * 10**6
        os.utime(path, ns=(time_ns, time_ns))
        self._writer, self._rows = None, 0
        self._number += 1
