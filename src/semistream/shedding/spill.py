"""Stream rows on disk, in the order in which they were shed."""

from __future__ import annotations

import shutil
import tempfile
import zlib
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc as ipc

from semistream.errors import CorruptionError

FILE_BYTES = 2048  # of a file, beside its rows


@dataclass(frozen=True, kw_only=True)
class _File:
    path: Path
    rows: int
    bytes: int
    sum: int


class Spill:
    """Holds at most `bytes_max` on disk, in a directory of its own that `close` removes.

    Cost: one file per call of `put`. Each file is checked when it is read back: CorruptionError if it changed.
    """

    def __init__(self, directory: str | Path | None = None, *, bytes_max: int = 1 << 30) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="semistream-shed-", dir=directory))
        self._bytes_max = bytes_max
        self._files: deque[_File] = deque()
        self._number = 0
        self.rows = self.bytes = self.bytes_peak = 0

    def fits(self, batch: pa.RecordBatch) -> bool:
        """Is there room for these rows?"""
        return self.bytes + len(self._content(batch)) <= self._bytes_max

    def rows_fitting(self, row_bytes: float) -> int:
        """About how many rows of that size it has room for."""
        return int((self._bytes_max - self.bytes - FILE_BYTES) / max(1.0, row_bytes))

    def put(self, batch: pa.RecordBatch) -> None:
        content = self._content(batch)
        path = self._directory / f"{self._number:08d}.arrow"
        path.write_bytes(content)
        self._files.append(_File(path=path, rows=batch.num_rows, bytes=len(content), sum=zlib.crc32(content)))
        self._number += 1
        self.rows += batch.num_rows
        self.bytes += len(content)
        self.bytes_peak = max(self.bytes_peak, self.bytes)

    def take(self, rows: int) -> list[pa.RecordBatch]:
        """The rows that were shed first: whole files, until there are at least so many."""
        taken: list[pa.RecordBatch] = []
        count = 0
        while self._files and count < rows:
            file = self._files.popleft()
            content = file.path.read_bytes() if file.path.exists() else b""
            if len(content) != file.bytes or zlib.crc32(content) != file.sum:
                raise CorruptionError(
                    f"{file.path}, which holds {file.rows:,} stream rows that were shed, has changed.",
                    hint="keep other programs out of that directory; the rows must be read from their source again.",
                )
            taken += ipc.open_stream(content).read_all().to_batches()
            file.path.unlink()
            self.rows -= file.rows
            self.bytes -= file.bytes
            count += file.rows
        return taken

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    @staticmethod
    def _content(batch: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()
