"""`VirtualTable`: a master table without a file. Its keys are real, its pages are made when they are fetched.

A table of any size costs no disk, no preparation and no memory but some pages, and it may grow while joins read it. It
is for experiments: the join does all that it does on a page store, on the very same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.arrow import address_of
from semistream.core.keys import FIXED_WIDTH_BYTES, KeyBatch, KeyEncoder
from semistream.core.rows import RowLayout
from semistream.errors import ConfigError, CorruptionError
from semistream.master_table import _page_kernels as page_kernels
from semistream.master_table import _virtual_kernels as kernels
from semistream.master_table.builder import PAGE_BYTES_MAX, PAGE_BYTES_MIN
from semistream.master_table.contract import I64
from semistream.master_table.shard_file import row_limit_bytes, short_bytes

KEY, ROW, PAYLOAD = "key", "row", "payload"
SCHEMA = pa.schema([(KEY, pa.int64()), (ROW, pa.int64()), (PAYLOAD, pa.string())])
VALUE_SCHEMA = pa.schema(list(SCHEMA)[1:])

PAGES_MAX = 1 << 32  # a page has its number in 32 bits
PAGES_AT_ONCE_MAX = 256
BUFFER_BYTES_MAX = 4 << 20  # or one page
_NUMBER_MAX = 2**63 - 1
_COLUMN_BYTES_MAX = 1 << 28  # of one chunk of the tables handed out; Arrow's offsets end at 2 GiB


@dataclass(frozen=True, kw_only=True)
class VirtualTableConfig:
    """What a virtual table holds. ConfigError for what no page store could hold either.

    Parameters
    ----------
    rows: how many; a multiple of `rows_per_key`.
    row_bytes: what a row takes where it is stored, exactly: a checksum (4), the key (8), the null bits (1), the
        column `row` (8), the end of `payload` (1; 2 or 4 if that is above 255 bytes), and `payload`, which gets
        the rest. These are the bytes that the page store counts when it says what "a row takes". A page has
        `rows_per_page` rows: each takes another 2 bytes for its offset (4 in pages above 64 KiB), the page 16.
    rows_per_key: m of the papers, the same for every key.
    key_stride: the keys are 0, key_stride, 2 * key_stride, ...; those between are absent.
    page_bytes: a power of two from 512 to 16 MiB.
    seed: decides the payloads, and the checksums of the pages.
    sums: pages carry checksums, and readers verify them, as on a page store. Without them pages are made and read
        several times faster. That changes nothing that is counted, so it is for runs on the virtual clock.
    """

    rows: int
    row_bytes: int = 120
    rows_per_key: int = 1
    key_stride: int = 1
    page_bytes: int = 8192
    seed: int = 0
    sums: bool = True

    def __post_init__(self) -> None:
        self._check("rows", 0, _NUMBER_MAX, "0 makes a table that is empty until rows are appended.")
        self._check("rows_per_key", 1, _NUMBER_MAX, "1 makes every key unique.")
        self._check("key_stride", 1, _NUMBER_MAX, "1 leaves no absent key between two others.")
        self._check("seed", 0, _NUMBER_MAX, "use 0, 1, 2, ...")
        self._check("page_bytes", PAGE_BYTES_MIN, PAGE_BYTES_MAX, "choose a power of two from 512 to 2^24.")
        if self.page_bytes & (self.page_bytes - 1):
            raise ConfigError(
                f"page_bytes={self.page_bytes} is not a page size.",
                hint="choose a power of two from 512 to 2^24.",
            )
        limit_bytes = row_limit_bytes(self.page_bytes)
        self._check("row_bytes", self._other_bytes(1), limit_bytes, "wider rows need larger page_bytes.")
        if self.payload_bytes <= kernels.NARROW_BYTES_MAX < self.row_bytes - self._other_bytes(1):
            raise ConfigError(
                f"row_bytes={self.row_bytes} cannot be met: with a payload of more than "
                f"{kernels.NARROW_BYTES_MAX} bytes its end takes {self._short} bytes instead of 1.",
                hint=f"choose {self._other_bytes(1) + kernels.NARROW_BYTES_MAX} or "
                f"{self._other_bytes(self._short) + kernels.NARROW_BYTES_MAX + 1}.",
            )
        self.check_rows(self.rows)

    @cached_property
    def rows_per_page(self) -> int:
        return (self.page_bytes - page_kernels.HEADER_BYTES) // (self.row_bytes + self._short)

    @cached_property
    def payload_bytes(self) -> int:
        """Characters of every row's payload: what the rest of the row leaves."""
        narrow = self.row_bytes - self._other_bytes(1)
        return (
            narrow if narrow <= kernels.NARROW_BYTES_MAX else self.row_bytes - self._other_bytes(self._short)
        )

    @cached_property
    def layout(self) -> RowLayout:
        return RowLayout(VALUE_SCHEMA, self._short)

    @cached_property
    def shape(self) -> I64:
        """For `_virtual_kernels`."""
        return np.array(
            [
                self.page_bytes, self._short, self.rows_per_page, self.rows_per_key, self.key_stride,
                self.row_bytes, self.payload_bytes,
            ],
            np.int64,
        )  # fmt: skip

    def check_rows(self, rows: int) -> None:
        """ConfigError if a table cannot have so many rows."""
        if rows % self.rows_per_key:
            nearest = max(1, round(rows / self.rows_per_key)) * self.rows_per_key
            raise ConfigError(
                f"rows={rows:,} leave the last key without some of its {self.rows_per_key:,} rows.",
                hint=f"choose a multiple of rows_per_key, for example {nearest:,}.",
            )
        keys = min(PAGES_MAX * self.rows_per_page // self.rows_per_key, _NUMBER_MAX // self.key_stride + 1)
        most = keys * self.rows_per_key
        if rows > most:
            raise ConfigError(
                f"rows={rows:,} are too many: keys end at 2^63, and a shard has at most 2^32 pages.",
                hint=f"with these row_bytes, page_bytes and key_stride there may be {most:,}.",
            )

    @property
    def _short(self) -> int:
        return short_bytes(self.page_bytes)

    def _other_bytes(self, end_bytes: int) -> int:
        """What a row takes without its payload."""
        return page_kernels.SUM_BYTES + FIXED_WIDTH_BYTES + self.layout.variable_at + end_bytes

    def _check(self, name: str, low: int, high: int, hint: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{name}={value!r} is not a whole number.", hint=f"pass {name} as an int.")
        if not low <= value <= high:
            raise ConfigError(f"{name}={value:,} is out of range ({low:,} to {high:,}).", hint=hint)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Size:
    """How large a table is at one moment, and where its stretches begin; see `_virtual_kernels`.

    Rows are appended behind the last page, as a store does whose pages never change once they are written: had
    a page that a join has passed got more rows, a key that begins in it would be found in part.
    """

    version: int
    rows: int
    pages: int
    first_row: I64
    first_page: I64

    @classmethod
    def of(cls, rows: int, rows_per_page: int) -> _Size:
        start = np.zeros(1, np.int64)
        return cls(version=1, rows=rows, pages=-(-rows // rows_per_page), first_row=start, first_page=start)

    def grown(self, rows: int, rows_per_page: int) -> _Size:
        first_row, first_page = self.first_row, self.first_page
        if (self.rows - first_row[-1]) % rows_per_page:
            first_row, first_page = np.append(first_row, self.rows), np.append(first_page, self.pages)
        return _Size(
            version=self.version + 1,
            rows=self.rows + rows,
            pages=self.pages + -(-rows // rows_per_page),
            first_row=first_row,
            first_page=first_page,
        )


class VirtualTable:
    """A `Table` of one shard, sorted by key, whose pages are those that `ShardWriter` would write.

    Guarantee: row n is always the same for the same config, and a page never changes. Payloads come again after
    rows_per_page rows, keys and row numbers never. Memory: 16 bytes for each `append`, and for each open shard a
    buffer of at most PAGES_AT_ONCE_MAX pages or BUFFER_BYTES_MAX. This is in no join's budget: it stands for the disk
    and the system's cache of it, as the mapped files of a page store do.

    `append` makes it larger while joins read it, in the same thread or another. Open shards see that at their
    next look: `info`, `fences` and the version tell the new size at once, and addresses handed out stay good. A
    key that is looked up meanwhile is found with all its rows or with none. A front stage that remembers a key
    as absent does not notice that it was appended, unless whoever runs it looks at `version`.

    >>> table = VirtualTable(VirtualTableConfig(rows=1_000, rows_per_key=2, key_stride=10))
    >>> table.key, table.pages, table.bytes
    (('key',), 15, 122880)
    >>> table.rows_of([0, 7, 4990]).select(["key", "row"]).to_pydict()
    {'key': [0, 0, 4990, 4990], 'row': [0, 1, 998, 999]}
    >>> table.append(500), table.rows
    (2, 1500)
    """

    schema = SCHEMA
    key = (KEY,)
    shards = 1
    value_schema = VALUE_SCHEMA

    def __init__(self, config: VirtualTableConfig) -> None:
        self.config = config
        self.layout = config.layout
        self.key_encoder = KeyEncoder([SCHEMA.field(KEY).type])
        # Replaced as a whole: whoever looks sees the old size or the new one.
        self.size = _Size.of(config.rows, config.rows_per_page)

    @property
    def rows(self) -> int:
        return self.size.rows

    @property
    def version(self) -> int:
        """1, and one more after each `append`."""
        return self.size.version

    @property
    def pages(self) -> int:
        return self.size.pages

    @property
    def page_bytes(self) -> int:
        return self.config.page_bytes

    @property
    def bytes(self) -> int:
        """All pages; there is nothing else to store."""
        return self.pages * self.page_bytes

    def append(self, rows: int) -> int:
        """Adds rows with the next larger keys, on pages of their own, and returns the new version. One thread
        at a time may do so."""
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise ConfigError(f"append({rows!r}) adds no rows.", hint="pass how many, at least 1.")
        self.config.check_rows(self.rows + rows)
        size = self.size.grown(rows, self.config.rows_per_page)
        if size.pages > PAGES_MAX:
            raise ConfigError(
                f"with {rows:,} more rows the table would have {size.pages:,} pages; a shard has at most 2^32.",
                hint="append more rows at a time: each append begins a page.",
            )
        self.size = size
        return size.version

    def fence_bytes(self, shards: list[int]) -> int:
        """None: where a key is follows from its value."""
        return 0

    def open_shard(self, shard: int) -> VirtualShardReader:
        if shard != 0:
            raise ConfigError(f"there is no shard {shard} (of 1).", hint="a virtual table has shard 0 only.")
        return VirtualShardReader(self)

    def rows_of(self, keys: npt.ArrayLike) -> pa.Table:
        """All rows of these keys (no nulls), key by key in the order given, without reading a page: what a join
        must find. Absent keys add nothing, repeated keys their rows again."""
        numbers = np.asarray(keys, np.int64)
        config, ordinals = self.config, self.rows // self.config.rows_per_key
        ordinal = numbers // config.key_stride
        held = ordinal[(numbers >= 0) & (ordinal * config.key_stride == numbers) & (ordinal < ordinals)]
        of_key = np.arange(config.rows_per_key, dtype=np.int64)
        return self.rows_at((held[:, None] * config.rows_per_key + of_key).reshape(-1))

    def rows_at(self, numbers: I64) -> pa.Table:
        """The rows with these numbers, which count from 0 in key order; numbers behind the end are rows to come."""
        step = max(1, _COLUMN_BYTES_MAX // self.config.row_bytes)
        batches = [self._batch(numbers[at : at + step]) for at in range(0, numbers.size, step)]
        return pa.Table.from_batches(batches, schema=SCHEMA)

    def _batch(self, numbers: I64) -> pa.RecordBatch:
        config = self.config
        keys = numbers // config.rows_per_key * config.key_stride
        size = config.payload_bytes
        text = np.empty(numbers.size * size, np.uint8)
        kernels.put_payloads(
            np.ascontiguousarray(numbers, np.int64), config.rows_per_page, np.uint64(config.seed), size,
            address_of(text),
        )  # fmt: skip
        offsets = np.arange(numbers.size + 1, dtype=np.int32) * np.int32(size)
        payload = pa.StringArray.from_buffers(numbers.size, pa.py_buffer(offsets), pa.py_buffer(text))
        return pa.RecordBatch.from_arrays([pa.array(keys), pa.array(numbers), payload], schema=SCHEMA)

    def __repr__(self) -> str:
        return (
            f"VirtualTable(rows={self.rows:,}, pages={self.pages:,}, version={self.version}, {self.config!r})"
        )


@dataclass(frozen=True, kw_only=True)
class VirtualShardInfo:
    """The size at one moment."""

    pages: int
    rows: int


class VirtualFences:
    """What `Fences` of the same pages would say, computed from the key."""

    nbytes = 0

    def __init__(self, table: VirtualTable) -> None:
        self._table = table

    def locate(self, keys: KeyBatch) -> tuple[I64, I64]:
        """(first page, last page) that can hold each of the keys; last < first: below all keys. Between two
        keys and above the last one there is a page to prove the absence, as in a page store."""
        assert keys.fixed
        config, size = self._table.config, self._table.size
        first, last = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        kernels.locate(keys.prefix, config.shape, size.rows, size.first_row, size.first_page, first, last)
        return first, last


class VirtualShardReader:
    """A `TableShard` whose pages are made by `fetch`, where the last ones stood. What they have in common is written
    once; so the buffer is kept until `close`."""

    is_mapped = False
    buffer_bytes = 0

    def __init__(self, table: VirtualTable) -> None:
        config = table.config
        self._table, self._shape = table, config.shape
        self.fences = VirtualFences(table)
        self.page_bytes = config.page_bytes
        self.pages_at_once = max(1, min(PAGES_AT_ONCE_MAX, BUFFER_BYTES_MAX // config.page_bytes))
        self._payload_seed, self._is_sealed = np.uint64(config.seed), config.sums
        self.seed = self._payload_seed if config.sums else page_kernels.UNSEALED
        self._buffer = np.empty(0, np.uint8)
        self._page_at: I64 = np.empty(0, np.int64)
        self._drawn: I64 = np.empty(0, np.int64)

    @property
    def info(self) -> VirtualShardInfo:
        size = self._table.size
        return VirtualShardInfo(pages=size.pages, rows=size.rows)

    def let_go(self) -> None:
        """The buffer is not the task's."""

    def prefetch(self, pages: I64) -> None:
        """Nothing: no page waits for a disk."""

    def fetch(self, pages: I64) -> I64:
        assert pages.size <= self.pages_at_once
        if not self._page_at.size:
            self._buffer = np.empty(self.pages_at_once * self.page_bytes, np.uint8)
            numbers = np.arange(self.pages_at_once, dtype=np.int64)
            self._page_at = address_of(self._buffer) + self.page_bytes * numbers
            self._drawn = np.full(self.pages_at_once, kernels.NOT_DRAWN, np.int64)
        size = self._table.size
        away = kernels.make_pages(
            self._page_at, self._drawn, pages, self._shape, size.rows, size.first_row, size.first_page, size.pages,
            self._payload_seed, self._is_sealed,
        )  # fmt: skip
        if away != kernels.NONE:
            raise self.damaged(int(away), f"is not one of its {size.pages:,} pages")
        return self._page_at[: pages.size]

    def damaged(self, page: int, what: str = "does not have the bytes that were made") -> CorruptionError:
        return CorruptionError(
            f"page {page:,} of a virtual table {what}.",
            hint="no file is involved; please report this as a defect.",
        )

    def close(self) -> None:
        self._buffer = np.empty(0, np.uint8)
        self._page_at = self._drawn = np.empty(0, np.int64)
