"""A shard file: pages of rows sorted by key, the fences that find them, and a footer.

    page 0 | page 1 | ... | fences | footer

Every page, the fences and the footer carry a checksum; nothing read back is believed without it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core import _hash_kernels as hashing
from semistream.core.arrow import address_of
from semistream.core.keys import KeyBatch
from semistream.core.rows import RowLayout
from semistream.errors import CorruptionError, SchemaError, StoreError
from semistream.master_table import _page_kernels as kernels
from semistream.master_table.fences import FenceBuilder, Fences
from semistream.master_table.files import BlockFile, MappedFile, open_file

I64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

MAGIC = b"semistrm"
FORMAT_VERSION = 1
WRITE_BUFFER_BYTES = 1 << 20
SHORT_PAGE_LIMIT_BYTES = 1 << 16
RESTORE_HINT = "restore the file from a copy, or prepare the table again with overwrite=True."

# magic, format, page size, pages, rows, seed, fence bytes, fence checksum, checksum of all these
_FOOTER = struct.Struct("<8sIIQQQQQQ")


def short_bytes(page_bytes: int) -> int:
    """Width of the offsets inside a page."""
    return 2 if page_bytes <= SHORT_PAGE_LIMIT_BYTES else 4


def row_limit_bytes(page_bytes: int) -> int:
    """The widest row (key and values, encoded) that a page can hold."""
    return page_bytes - kernels.HEADER_BYTES - short_bytes(page_bytes)


@dataclass(frozen=True, kw_only=True)
class ShardInfo:
    """What the manifest says about one shard file; the footer must agree."""

    file: str
    bytes: int
    pages: int
    rows: int
    fence_bytes: int
    seed: int


class ShardWriter:
    """Writes rows that arrive in key order. Memory: one write buffer, and the fences (about 10 bytes a page).

    The file is complete only after `close`.
    """

    def __init__(self, file: BinaryIO, *, page_bytes: int, layout: RowLayout, fixed: bool, seed: int) -> None:
        self._file, self._page_bytes, self._layout, self._seed = file, page_bytes, layout, seed
        self._short = short_bytes(page_bytes)
        self._buffer_pages = max(2, WRITE_BUFFER_BYTES // page_bytes)
        self._buffer = np.zeros(self._buffer_pages * page_bytes, np.uint8)
        self._state = np.array([0, 0, page_bytes], np.int64)  # page, rows in it, end of its free space
        self._last_key: KeyBatch | None = None
        self._fences = FenceBuilder(fixed=fixed)
        self._pages = self._rows = 0

    def write(self, keys: KeyBatch, values: list[pa.Array]) -> None:
        """Appends rows; SchemaError for a row wider than a page, StoreError for keys out of order."""
        if len(keys) == 0:
            return
        self._check_order(keys)
        key_bytes = 8 if keys.fixed else np.diff(keys.offsets) + self._short
        sizes = self._layout.sizes(values, len(keys)) + key_bytes + kernels.SUM_BYTES
        self._check_width(sizes)
        page_of, offset_of = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        start = 0
        while start < len(keys):
            open_page = int(self._state[0]) if self._state[1] else -1
            stop = int(
                kernels.plan_rows(
                    sizes,
                    start,
                    self._page_bytes,
                    self._buffer_pages,
                    self._state,
                    self._short,
                    page_of,
                    offset_of,
                )
            )
            self._place(keys, values, start, stop, page_of, offset_of)
            opens = np.flatnonzero(np.diff(page_of[start:stop], prepend=open_page)) + start
            self._fences.add(keys, opens, self._last_key)
            if stop < len(keys):
                self._flush()
            start = stop
        self._last_key = keys.take(np.array([len(keys) - 1]))
        self._rows += len(keys)

    def close(self, name: str) -> ShardInfo:
        """Writes what is left, the fences and the footer."""
        self._flush()
        fences = self._fences.build().to_bytes()
        self._file.write(fences)
        footer = _footer(self._page_bytes, self._pages, self._rows, self._seed, fences)
        self._file.write(footer)
        return ShardInfo(
            file=name,
            bytes=self._pages * self._page_bytes + len(fences) + len(footer),
            pages=self._pages,
            rows=self._rows,
            fence_bytes=len(fences),
            seed=self._seed,
        )

    def _place(
        self, keys: KeyBatch, values: list[pa.Array], start: int, stop: int, page_of: I64, offset_of: I64
    ) -> None:
        rows_at = np.empty(stop - start, np.int64)
        kernels.place_keys(
            address_of(self._buffer), self._page_bytes, self._short,
            keys.fixed, keys.prefix, keys.offsets, keys.data_address,
            page_of, offset_of, start, stop, rows_at,
        )  # fmt: skip
        self._layout.encode([column.slice(start, stop - start) for column in values], rows_at)

    def _flush(self) -> None:
        count = int(self._state[0]) + 1 if self._state[1] else 0
        kernels.seal_pages(
            address_of(self._buffer), self._page_bytes, count, self._pages, self._short, np.uint64(self._seed)
        )
        self._file.write(self._buffer[: count * self._page_bytes].data)
        self._buffer[: count * self._page_bytes] = 0
        self._state[:] = (0, 0, self._page_bytes)
        self._pages += count

    def _check_order(self, keys: KeyBatch) -> None:
        last = self._last_key
        bad = kernels.first_unsorted(
            keys.fixed, keys.prefix, keys.offsets, keys.data_address,
            last is not None,
            last.prefix[0] if last is not None else np.uint64(0),
            last.data_address if last is not None else 0,
            last.data.size if last is not None else 0,
        )  # fmt: skip
        if bad >= 0:
            raise StoreError(
                f"row {self._rows + bad:,} of a shard has a key below the one before it.",
                hint="rows must arrive in the byte order of their keys; please report this as a defect.",
            )

    def _check_width(self, sizes: I64) -> None:
        limit, widest = row_limit_bytes(self._page_bytes), int(sizes.max())
        if widest > limit:
            enough = self._page_bytes
            while row_limit_bytes(enough) < widest:
                enough *= 2
            raise SchemaError(
                f"a row takes {widest:,} bytes, but a page of {self._page_bytes:,} bytes holds rows of at "
                f"most {limit:,}.",
                hint=f'prepare the table with page_size="{enough // 1024} KiB", or leave long columns out.',
            )


class ShardReader:
    """Random and sequential access to the pages of one shard file.

    Opening reads the footer and the fences, nothing else. CorruptionError names the file, and the page.
    """

    def __init__(self, file: BlockFile, path: Path, info: ShardInfo, *, page_bytes: int, fixed: bool) -> None:
        self.path, self.info, self.page_bytes = path, info, page_bytes
        self._file = file
        self.seed = np.uint64(info.seed)
        self.fences = self._read_fences(fixed)

    @classmethod
    def open(cls, path: Path, info: ShardInfo, *, page_bytes: int, fixed: bool) -> ShardReader:
        try:
            file = open_file(path)
        except FileNotFoundError:
            raise CorruptionError(f"the shard file {path} is missing.", hint=RESTORE_HINT) from None
        return cls(file, path, info, page_bytes=page_bytes, fixed=fixed)

    @property
    def pages_at_once(self) -> int:
        """How many pages one `fetch` can bring."""
        return self._file.blocks_at_once(self.page_bytes)

    @property
    def is_mapped(self) -> bool:
        """Do addresses stay good over later fetches?"""
        return isinstance(self._file, MappedFile)

    @property
    def buffer_bytes(self) -> int:
        """Memory that fetching takes."""
        return 0 if self.is_mapped else self.pages_at_once * self.page_bytes

    def prefetch(self, pages: I64) -> None:
        """Start reading these pages; returns without waiting."""
        self._file.prefetch(pages, self.page_bytes)

    def fetch(self, pages: I64) -> I64:
        """Where the pages are in memory, until the next call; not yet verified."""
        try:
            return self._file.fetch(pages, self.page_bytes)
        except EOFError:
            whole = self._file.size_bytes // self.page_bytes
            raise self.damaged(min(whole, self.info.pages - 1), "is cut off") from None

    def let_go(self) -> None:
        """The pages fetched last are not needed any more: gives their memory back."""
        self._file.let_go()

    def damaged(self, page: int, what: str = "does not have the bytes that were written") -> CorruptionError:
        return CorruptionError(f"page {page:,} of the shard file {self.path} {what}.", hint=RESTORE_HINT)

    def verify(self) -> Iterator[int]:
        """Checks every page; yields the number of pages after each stretch. CorruptionError at the first bad one."""
        step = max(1, min(self.pages_at_once, WRITE_BUFFER_BYTES // self.page_bytes))
        for start in range(0, self.info.pages, step):
            pages = np.arange(start, min(start + step, self.info.pages))
            bad = kernels.first_damaged(self.fetch(pages), pages, self.page_bytes, self.seed)
            if bad >= 0:
                raise self.damaged(start + int(bad))
            yield pages.size

    def close(self) -> None:
        self._file.close()

    def _read_fences(self, fixed: bool) -> Fences:
        info = self.info
        if self._file.size_bytes != info.bytes:
            page = min(self._file.size_bytes // self.page_bytes, max(info.pages - 1, 0))
            raise CorruptionError(
                f"the shard file {self.path} has {self._file.size_bytes:,} bytes instead of {info.bytes:,} "
                f"(whole up to page {page:,}).",
                hint=RESTORE_HINT,
            )
        content = np.empty(info.fence_bytes + _FOOTER.size, np.uint8)
        self._file.read(info.pages * self.page_bytes, content)
        fences = content[: info.fence_bytes]
        expected = _footer(self.page_bytes, info.pages, info.rows, info.seed, fences)
        # A file always has checksums; tables that are made as they are read may do without.
        if content[info.fence_bytes :].tobytes() != expected or info.seed == int(kernels.UNSEALED):
            raise CorruptionError(
                f"the fences or the footer of the shard file {self.path} (behind page {info.pages - 1:,}) do not "
                "have the bytes that were written.",
                hint=RESTORE_HINT,
            )
        try:
            return Fences.from_bytes(fences, pages=info.pages, fixed=fixed)
        except ValueError as error:
            raise CorruptionError(
                f"the fences of {self.path} are unusable: {error}.", hint=RESTORE_HINT
            ) from None


def _footer(page_bytes: int, pages: int, rows: int, seed: int, fences: bytes | Bytes) -> bytes:
    fence_sum = _sum(fences, seed)
    head = _FOOTER.pack(MAGIC, FORMAT_VERSION, page_bytes, pages, rows, seed, len(fences), fence_sum, 0)[:-8]
    return head + struct.pack("<Q", _sum(head, seed))


def _sum(content: bytes | Bytes, seed: int) -> int:
    array = np.frombuffer(content, np.uint8) if len(content) else np.zeros(0, np.uint8)
    return int(hashing.checksum(address_of(array), len(content), np.uint64(seed)))
