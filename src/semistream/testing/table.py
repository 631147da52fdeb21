"""What every master table promises: intact pages in key order, and a range of pages for every key it holds."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from semistream.core.keys import KeyBatch
from semistream.errors import ConfigError, CorruptionError
from semistream.master_table import _page_kernels as kernels
from semistream.master_table.builder import build_store
from semistream.master_table.contract import Table, TableShard
from semistream.master_table.page_store import MasterTable
from semistream.master_table.virtual import VirtualTable, VirtualTableConfig
from semistream.testing.discovery import implementations, make

PAGE_BYTES = 512
KEYS = 150
STRIDE = 3
ROWS_PER_KEY = 7  # of 60 to 70 bytes: many keys lie in two pages

Made = tuple[Table, pa.Table]


def _page_store(directory: str) -> Made:
    numbers = [STRIDE * (i // ROWS_PER_KEY) for i in range(KEYS * ROWS_PER_KEY)]
    rows = pa.table(
        {
            "key": pa.array(numbers, pa.int64()),
            "id": pa.array(range(len(numbers)), pa.int64()),
            "text": pa.array(["x" * (40 + i % 10) for i in range(len(numbers))]),
        }
    )
    return build_store(rows, directory + "/store", key="key", shards=2, page_size=PAGE_BYTES), rows


def _virtual(directory: str) -> Made:
    config = VirtualTableConfig(
        rows=KEYS * ROWS_PER_KEY,
        rows_per_key=ROWS_PER_KEY,
        key_stride=STRIDE,
        row_bytes=64,
        page_bytes=PAGE_BYTES,
    )
    table = VirtualTable(config)
    return table, table.rows_at(np.arange(table.rows))


# How to make one, and the rows it then has: KEYS keys from 0 on, STRIDE apart, with ROWS_PER_KEY rows each.
MAKERS: Mapping[type, Callable[..., Any]] = {MasterTable: _page_store, VirtualTable: _virtual}


def _encoded(table: Table, numbers: list[int]) -> tuple[KeyBatch, npt.NDArray[np.int32]]:
    """The sorted keys, and the shard of each."""
    column = pa.array(numbers, pa.int64())
    return table.key_encoder.encode([column]), table.key_encoder.shards([column], table.shards)


def _rows_of(table: Table, shard: TableShard, number: int) -> list[tuple[object, ...]]:
    """All rows of one key, found as access paths do."""
    keys, _ = _encoded(table, [number])
    (first,), (last,) = shard.fences.locate(keys)
    pages = np.arange(first, last + 1)
    if not pages.size:
        return []
    layout, slots = table.layout, np.array([0, pages.size - 1])
    state, counts, row_at = np.array([0, 0, -1, 0]), np.zeros(1, np.int64), np.empty(1000, np.int64)
    outcome = kernels.match(
        shard.fetch(pages), PAGE_BYTES, shard.seed, pages, 0, pages.size, layout.end_bytes,
        layout.variable_at, layout.variable_columns, keys.fixed, keys.prefix, keys.offsets, keys.data_address,
        slots[:1], slots[1:], state, counts, row_at,
    )  # fmt: skip
    assert outcome == kernels.WINDOW_DONE
    columns = [column.to_pylist() for column in layout.decode(row_at[: counts[0]])]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "buffered"])
@pytest.mark.parametrize("implementation", implementations(Table, "semistream.master_table"))
class TableContract:
    """Subclass it in a test module to run it."""

    _made: ClassVar[dict[type, tuple[tempfile.TemporaryDirectory[str], Made]]] = {}

    def _table(self, implementation: type) -> Made:
        if implementation not in self._made:
            keep = tempfile.TemporaryDirectory()
            self._made[implementation] = (keep, make(MAKERS, implementation, directory=keep.name))
        return self._made[implementation][1]

    def _open(self, table: Table, shard: int, mapped: bool) -> TableShard:
        with patch("semistream.master_table.files.is_mapping_allowed", return_value=mapped):
            return table.open_shard(shard)

    def test_can_be_made(self, implementation: type, mapped: bool) -> None:
        table, rows = self._table(implementation)
        assert table.schema.names == rows.schema.names
        assert table.schema.names[: len(table.key)] == list(table.key)
        assert table.value_schema.names == table.schema.names[len(table.key) :]
        assert table.layout.schema == table.value_schema
        assert (table.rows, table.page_bytes) == (rows.num_rows, PAGE_BYTES)
        assert table.bytes >= table.pages * PAGE_BYTES
        assert table.version >= 1

    def test_shards_tell_their_size_and_memory(self, implementation: type, mapped: bool) -> None:
        table, _ = self._table(implementation)
        shards = [self._open(table, shard, mapped) for shard in range(table.shards)]
        assert sum(shard.info.pages for shard in shards) == table.pages
        assert sum(shard.info.rows for shard in shards) == table.rows
        assert sum(shard.fences.nbytes for shard in shards) <= table.fence_bytes(list(range(table.shards)))
        for shard in shards:
            assert shard.page_bytes == table.page_bytes
            assert shard.pages_at_once >= 1
            assert shard.buffer_bytes in (0, shard.pages_at_once * PAGE_BYTES)
            assert not (shard.is_mapped and shard.buffer_bytes)
            shard.close()
            shard.close()

    @pytest.mark.parametrize("shard", [-1, 2, 99])
    def test_a_shard_that_is_not_there_is_refused(
        self, implementation: type, mapped: bool, shard: int
    ) -> None:
        table, _ = self._table(implementation)
        with pytest.raises(ConfigError, match=f"no shard {shard}"):
            self._open(table, shard, mapped)

    def test_pages_are_intact_and_always_the_same(self, implementation: type, mapped: bool) -> None:
        table, _ = self._table(implementation)
        for number in range(table.shards):
            shard = self._open(table, number, mapped)
            pages = np.arange(min(shard.info.pages, shard.pages_at_once))
            shard.prefetch(pages)
            page_at = shard.fetch(pages)
            assert kernels.first_damaged(page_at, pages, PAGE_BYTES, shard.seed) == -1
            together = [ctypes.string_at(at, PAGE_BYTES) for at in page_at.tolist()]
            for chosen in (pages[::3].copy(), pages[-1:], pages[:0], pages[:1]):
                found = [ctypes.string_at(at, PAGE_BYTES) for at in shard.fetch(chosen).tolist()]
                assert found == [together[page] for page in chosen.tolist()]
            if shard.is_mapped:
                assert [ctypes.string_at(at, PAGE_BYTES) for at in page_at.tolist()] == together
            shard.close()

    def test_a_page_behind_the_end_is_an_error(self, implementation: type, mapped: bool) -> None:
        table, _ = self._table(implementation)
        shard = self._open(table, 0, mapped)
        # Behind the last page a file has fences; what is there must at least not be given for a page.
        pages = np.array([shard.info.pages + 1000])
        with pytest.raises(CorruptionError, match="page"):
            shard.fetch(pages)
        assert isinstance(shard.damaged(0), CorruptionError)
        shard.close()

    def test_ranges_hold_all_rows_and_absent_keys_have_none(self, implementation: type, mapped: bool) -> None:
        table, rows = self._table(implementation)
        expected: dict[int, list[tuple[object, ...]]] = {}
        for key, *values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            expected.setdefault(key, []).append(tuple(values))
        numbers = list(range(-STRIDE, STRIDE * KEYS + STRIDE))
        _, shard_of = _encoded(table, numbers)
        shards = [self._open(table, shard, mapped) for shard in range(table.shards)]
        for number, shard in zip(numbers, shard_of.tolist(), strict=True):
            assert _rows_of(table, shards[shard], number) == expected.get(number, []), number
        for each in shards:
            each.close()

    def test_below_all_keys_there_is_no_page(self, implementation: type, mapped: bool) -> None:
        table, _ = self._table(implementation)
        keys, _ = _encoded(table, [-(2**63), -5, -1])
        for number in range(table.shards):
            shard = self._open(table, number, mapped)
            first, last = shard.fences.locate(keys)
            assert (last < first).all()
            shard.close()
