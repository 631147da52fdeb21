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

from semistream.access_path.batched import BatchedIndexAccess
from semistream.access_path.cyclic_scan import CyclicScan
from semistream.access_path.oldest_key import OldestKey
from semistream.access_path.partition import PartitionAccess
from semistream.access_path.planned import PlannedAccess, ReadCosts, open_shards
from semistream.access_path.segments import DiskBuffer
from semistream.access_path.sweep import Sweep
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import AccessPath, Arrivals, Matches
from semistream.core.exchange import Reading
from semistream.core.keys import KeyEncoder
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.errors import BudgetError, StoreError
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.testing.discovery import implementations, make
from semistream.testing.fakes import key_column
from semistream.waiting_room.batch_room import BatchRoom
from semistream.waiting_room.partitioned_room import PartitionedRoom
from semistream.waiting_room.queue_room import QueueRoom
from semistream.waiting_room.swept_room import SweptRoom

ROOM_BYTES = 100 << 10
LOOKUP_COSTS = {"picks": (0.0, 1.0), "scans": (1.0, 0.0), "measures": (20e-6, 1e-9)}


def _planned(
    table: MasterTable, shards: list[int], budget: MemoryBudget, metrics: JoinMetrics, costs: str
) -> tuple[PlannedAccess, BatchRoom]:
    page_seconds, byte_seconds = LOOKUP_COSTS[costs]
    room = BatchRoom(budget, lambda: ROOM_BYTES)
    path = PlannedAccess(
        table,
        open_shards(table, shards, budget),
        room,
        budget=budget,
        metrics=metrics,
        costs=ReadCosts(page_seconds=page_seconds, byte_seconds=byte_seconds),
    )
    return path, room


def _sweep(
    table: MasterTable, shards: list[int], budget: MemoryBudget, metrics: JoinMetrics, costs: str
) -> tuple[Sweep, SweptRoom]:
    page_seconds, byte_seconds = LOOKUP_COSTS[costs]
    opened = open_shards(table, shards, budget)
    room = SweptRoom(budget, lambda: ROOM_BYTES, opened, parts=6)
    path = Sweep(
        table,
        opened,
        room,
        budget=budget,
        metrics=metrics,
        costs=ReadCosts(page_seconds=page_seconds, byte_seconds=byte_seconds),
        reading=Reading(),
    )
    return path, room


def _on_queue(
    make_path: Callable[[DiskBuffer, RowLayout], Any], *, pages: int, rows_max: int | None = None
) -> Callable[..., Any]:
    """A path on a queue room."""

    def maker(
        table: MasterTable, shards: list[int], budget: MemoryBudget, metrics: JoinMetrics, costs: str
    ) -> tuple[Any, QueueRoom]:
        room = QueueRoom(budget, lambda: ROOM_BYTES, fixed=table.key_encoder.fixed, rows_max=rows_max)
        buffer = DiskBuffer(table, shards, room, buffer_pages=pages, budget=budget, metrics=metrics)
        return make_path(buffer, table.layout), room

    return maker


def _batched(
    table: MasterTable, shards: list[int], budget: MemoryBudget, metrics: JoinMetrics, costs: str
) -> tuple[BatchedIndexAccess, BatchRoom]:
    room = BatchRoom(budget, lambda: ROOM_BYTES)
    opened = open_shards(table, shards, budget)
    return BatchedIndexAccess(table, opened, room, budget=budget, metrics=metrics), room


def _partition(
    table: MasterTable, shards: list[int], budget: MemoryBudget, metrics: JoinMetrics, costs: str
) -> tuple[PartitionAccess, PartitionedRoom]:
    room = PartitionedRoom(budget, lambda: ROOM_BYTES, fixed=table.key_encoder.fixed)
    buffer = DiskBuffer(table, shards, room, buffer_pages=4, budget=budget, metrics=metrics)
    return PartitionAccess(buffer, room, layout=table.layout, pages=4), room


# A maker gives the path and its room.
MAKERS: Mapping[type, Callable[..., Any]] = {
    PlannedAccess: _planned,
    BatchedIndexAccess: _batched,
    Sweep: _sweep,
    PartitionAccess: _partition,
    CyclicScan: _on_queue(
        lambda buffer, layout: CyclicScan(buffer, layout=layout, segment_pages=7, by_chunk=True), pages=7
    ),
    OldestKey: _on_queue(lambda buffer, layout: OldestKey(buffer, layout=layout, pages=3), pages=3),
}

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


def _arrivals(numbers: list[int], shards: int, *, fixed: bool) -> Arrivals:
    column = key_column(numbers, fixed=fixed)
    encoder = KeyEncoder([column.type])
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(numbers))), column], names=["row", "key"])
    return Arrivals(
        batch=batch, keys=encoder.encode([column]), key_positions=(1,), encoder=encoder, shards=shards
    )


def _exhaust(path: Any, room: Any) -> None:
    while room.count:
        for _ in path.step():
            pass


@pytest.mark.parametrize("implementation", implementations(AccessPath, "semistream.access_path"))
class AccessPathContract:
    """Subclass it in a test module to run it."""

    def test_can_be_made(self, implementation: type) -> None:
        with tempfile.TemporaryDirectory() as directory:
            table = _store(directory, fixed=True, shards=2)
            path, room = self._make(implementation, table, MemoryBudget(8 << 20), "measures")
            assert (room.count, path.cycles) == (0, 0)
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
            path, room = make(
                MAKERS,
                implementation,
                table=table,
                shards=[0, 2],
                budget=budget,
                metrics=metrics,
                costs="picks",
            )
            room.put(_arrivals(list(range(20)), 3, fixed=True), np.arange(20))
            with pytest.raises(StoreError, match="shard 1"):
                _exhaust(path, room)
            path.close()

    @pytest.mark.parametrize("costs", LOOKUP_COSTS)
    @pytest.mark.parametrize("fixed", [True, False])
    @given(
        drains=st.lists(
            st.lists(st.integers(0, KEYS + 20), min_size=1, max_size=200), min_size=1, max_size=3
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
                path, room = self._make(implementation, table, budget, costs)
            for numbers in drains:
                self._check_drain(path, room, numbers, shards, fixed)
            budget.check_invariants()
            path.close()

    def _check_drain(self, path: Any, room: Any, numbers: list[int], shards: int, fixed: bool) -> None:
        """Every waiting row meets every row of its key once, leaves once, and is told right what it met."""
        arrivals = _arrivals(numbers, shards, fixed=fixed)
        met: dict[int, list[int]] = {row: [] for row in range(len(numbers))}
        left: dict[int, bool] = {}
        start = 0
        while start < len(numbers) or room.count:
            space = room.space(arrivals.row_bytes) if start < len(numbers) else 0
            if space:
                start += room.put(arrivals, np.arange(start, min(len(numbers), start + space)))
                continue
            for matches in path.step():
                self._check_matches(path, matches, numbers, met, left)
        room.settle()
        room.check_invariants()
        assert sorted(left) == list(range(len(numbers)))
        for row, number in enumerate(numbers):
            expected = _rows_of_key(number) if number < KEYS else 0
            assert len(set(met[row])) == len(met[row]) == expected, number
            assert left[row] == (expected > 0)

    def _check_matches(
        self,
        path: Any,
        matches: Matches,
        numbers: list[int],
        met: dict[int, list[int]],
        left: dict[int, bool],
    ) -> None:
        waiting = matches.waiting
        size = matches.counts.size
        assert int(matches.counts.sum()) == matches.row_at.size
        assert matches.before.size == matches.whole.size == matches.leaving.size == size
        number, ids = (column.to_pylist() for column in path.layout.decode(matches.row_at)[:2])
        ends = np.concatenate([[0], np.cumsum(matches.counts)]).tolist()
        for j in range(size):
            key = matches.first_key + j
            local = waiting.order[waiting.starts[key] : waiting.starts[key + 1]]
            rows = waiting.rows.take(local).column(0).to_pylist()
            found = list(zip(number, ids, strict=True))[ends[j] : ends[j + 1]]
            for row in rows:
                assert row not in left
                assert all(n == numbers[row] for n, _ in found)
                met[row] += [each for _, each in found]
                if matches.leaving[j]:
                    left[row] = bool(found) or matches.before[j] > 0
            if matches.whole[j] and rows:
                expected = _rows_of_key(numbers[rows[0]]) if numbers[rows[0]] < KEYS else 0
                assert len(found) == expected

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
