"""What every access path promises: all rows of all waiting keys, once, in windows that fit each other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.access_path.planned import PlannedAccess, ReadCosts
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import AccessPath, Waiting
from semistream.core.keys import KeyEncoder
from semistream.core.metrics import JoinMetrics
from semistream.errors import BudgetError, StoreError
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.testing.discovery import implementations, make
from semistream.testing.fakes import key_column

LOOKUP_COSTS = {"picks": (0.0, 1.0), "scans": (1.0, 0.0), "measures": (20e-6, 1e-9)}


def _planned(
    table: MasterTable, shards: list[int], budget: MemoryBudget, metrics: JoinMetrics, costs: str
) -> PlannedAccess:
    page_seconds, byte_seconds = LOOKUP_COSTS[costs]
    return PlannedAccess(
        table,
        shards,
        budget=budget,
        metrics=metrics,
        costs=ReadCosts(page_seconds=page_seconds, byte_seconds=byte_seconds),
    )


MAKERS: Mapping[type, Callable[..., Any]] = {PlannedAccess: _planned}

KEYS = 300


def _rows_of_key(key: int) -> int:
    """Every fourth key is absent; some have rows for many pages, and for more than one window."""
    return 0 if key % 4 == 0 else {3: 40, 101: 700}.get(key, 1 + key % 3)


def _store(directory: str, *, fixed: bool, shards: int) -> MasterTable:
    numbers = [key for key in range(KEYS) for _ in range(_rows_of_key(key))]
    columns = {
        "key": key_column(numbers, fixed=fixed),
        "number": pa.array(numbers, pa.int64()),
        "id": pa.array(range(len(numbers)), pa.int64()),
        "text": pa.array(["x" * (i % 60) for i in range(len(numbers))]),
    }
    return build_store(pa.table(columns), directory + "/store", key="key", shards=shards, page_size=512)


def _waiting(numbers: list[int], shards: int, *, fixed: bool) -> tuple[Waiting, list[int]]:
    column = key_column(numbers, fixed=fixed)
    encoder = KeyEncoder([column.type])
    keys, shard_of = encoder.encode([column]), encoder.shards([column], shards)
    order = keys.sort_order()
    order = order[np.argsort(shard_of[order], kind="stable")]
    waiting = Waiting(
        rows=pa.RecordBatch.from_pylist([{}] * len(numbers), schema=pa.schema([])),
        keys=keys.take(order),
        shards=shard_of[order],
        order=np.arange(len(numbers), dtype=np.int64),
        starts=np.arange(len(numbers) + 1, dtype=np.int64),
    )
    return waiting, [numbers[i] for i in order.tolist()]


@pytest.mark.parametrize("implementation", implementations(AccessPath, "semistream.access_path"))
class AccessPathContract:
    """Subclass it in a test module to run it."""

    def test_can_be_made(self, implementation: type) -> None:
        with tempfile.TemporaryDirectory() as directory:
            table = _store(directory, fixed=True, shards=2)
            path = self._make(implementation, table, MemoryBudget(8 << 20), "measures")
            assert path.layout.schema == table.value_schema
            path.close()

    def test_what_it_holds_is_reserved(self, implementation: type) -> None:
        with tempfile.TemporaryDirectory() as directory:
            table = _store(directory, fixed=True, shards=2)
            with pytest.raises(BudgetError):
                self._make(implementation, table, MemoryBudget(1000), "measures")

    def test_a_key_of_a_shard_it_does_not_serve_is_refused(self, implementation: type) -> None:
        with tempfile.TemporaryDirectory() as directory:
            table = _store(directory, fixed=True, shards=3)
            budget, metrics = MemoryBudget(8 << 20), JoinMetrics()
            path = make(
                MAKERS,
                implementation,
                table=table,
                shards=[0, 2],
                budget=budget,
                metrics=metrics,
                costs="picks",
            )
            with pytest.raises(StoreError, match="shard 1"):
                list(path.fetch(_waiting(list(range(20)), 3, fixed=True)[0]))
            path.close()

    @pytest.mark.parametrize("costs", LOOKUP_COSTS)
    @pytest.mark.parametrize("fixed", [True, False])
    @given(
        drains=st.lists(
            st.lists(st.integers(0, KEYS + 20), unique=True, min_size=1, max_size=200), min_size=1, max_size=3
        ),
        memory=st.sampled_from([600 << 10, 4 << 20]),
        mapped=st.booleans(),
    )
    def test_every_row_of_every_key_once(
        self,
        implementation: type,
        fixed: bool,
        costs: str,
        drains: list[list[int]],
        memory: int,
        mapped: bool,
    ) -> None:
        for shards, table in self._tables(fixed).items():
            budget = MemoryBudget(memory)
            with patch("semistream.master_table.files.is_mapping_allowed", return_value=mapped):
                path = self._make(implementation, table, budget, costs)
            for numbers in drains:
                self._check_drain(path, numbers, shards, fixed)
            budget.check_invariants()
            path.close()

    def _check_drain(self, path: Any, numbers: list[int], shards: int, fixed: bool) -> None:
        waiting, ordered = _waiting(numbers, shards, fixed=fixed)
        found: dict[int, list[int]] = {number: [] for number in numbers}
        first, open_key = 0, False
        for matches in path.fetch(waiting):
            assert matches.continued == open_key
            assert matches.first_key == first
            assert matches.counts.size == matches.stop_key - matches.first_key
            assert int(matches.counts.sum()) == matches.row_at.size
            number, ids = (column.to_pylist() for column in path.layout.decode(matches.row_at)[:2])
            keys = np.repeat(np.arange(matches.first_key, matches.stop_key), matches.counts).tolist()
            assert [ordered[key] for key in keys] == number
            for key, row in zip(number, ids, strict=True):
                found[key].append(row)
            open_key = matches.unfinished
            first = matches.stop_key - open_key
        assert not open_key
        assert first == len(numbers)
        for number, ids in found.items():
            expected = _rows_of_key(number) if number < KEYS else 0
            assert len(set(ids)) == len(ids) == expected

    def _make(self, implementation: type, table: MasterTable, budget: MemoryBudget, costs: str) -> Any:
        everything = list(range(table.shards))
        metrics = JoinMetrics()
        return make(
            MAKERS,
            implementation,
            table=table,
            shards=everything,
            budget=budget,
            metrics=metrics,
            costs=costs,
        )

    _made: ClassVar[dict[bool, tuple[Any, dict[int, MasterTable]]]] = {}

    def _tables(self, fixed: bool) -> dict[int, MasterTable]:
        """By shard count; made once, since Hypothesis comes back a hundred times."""
        if fixed not in self._made:
            keep = tempfile.TemporaryDirectory()
            tables = {n: _store(f"{keep.name}/{n}", fixed=fixed, shards=n) for n in (1, 3)}
            self._made[fixed] = (keep, tables)
        return self._made[fixed][1]
