"""What every waiting room promises: nobody is lost, and who waits for what is told right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import Arrivals, WaitingRoom
from semistream.core.keys import KeyEncoder
from semistream.errors import BudgetError
from semistream.testing.discovery import implementations, make
from semistream.testing.fakes import EvenShard, key_column
from semistream.waiting_room.batch_room import BatchRoom
from semistream.waiting_room.partitioned_room import SLOT_BYTES, PartitionedRoom
from semistream.waiting_room.queue_room import QueueRoom
from semistream.waiting_room.swept_room import SweptRoom


def _partitioned(budget: MemoryBudget, capacity_bytes: int, fixed: bool) -> PartitionedRoom:
    # Its slots are few bytes of the budget, beside what is left for rows.
    return PartitionedRoom(budget, lambda: capacity_bytes - SLOT_BYTES, fixed=fixed)


def _swept(budget: MemoryBudget, capacity_bytes: int, fixed: bool) -> SweptRoom:
    shards: Any = {shard: EvenShard(12) for shard in range(SHARDS)}
    room = SweptRoom(budget, lambda: capacity_bytes, shards, parts=2 * SHARDS)
    room.is_swept = True
    return room


MAKERS: Mapping[type, Callable[..., Any]] = {
    BatchRoom: lambda budget, capacity_bytes, fixed: BatchRoom(budget, lambda: capacity_bytes),
    QueueRoom: lambda budget, capacity_bytes, fixed: QueueRoom(budget, lambda: capacity_bytes, fixed=fixed),
    PartitionedRoom: _partitioned,
    SweptRoom: _swept,
}
SHARDS = 3


def _arrivals(numbers: list[int], first_id: int, *, fixed: bool, note: str = "", flags: int = 0) -> Arrivals:
    keys = key_column(numbers, fixed=fixed)
    ids = pa.array(range(first_id, first_id + len(numbers)), pa.int64())
    encoder = KeyEncoder([keys.type])
    notes = pa.array([note] * len(numbers), pa.string())
    yes = {f"flag {i}": pa.array([True] * len(numbers)) for i in range(flags)}
    batch = pa.record_batch({"id": ids, "key": keys, "note": notes, **yes})
    return Arrivals(
        batch=batch, keys=encoder.encode([keys]), key_positions=(1,), encoder=encoder, shards=SHARDS
    )


def _put(room: Any, arrivals: Arrivals) -> int:
    """All rows at once."""
    return room.put(arrivals, np.arange(arrivals.batch.num_rows))


@pytest.mark.parametrize("implementation", implementations(WaitingRoom, "semistream.waiting_room"))
class WaitingRoomContract:
    """Subclass it in a test module to run it."""

    def test_can_be_made(self, implementation: type) -> None:
        room = make(MAKERS, implementation, budget=MemoryBudget(1 << 16), capacity_bytes=1 << 16, fixed=True)
        room.check_invariants()
        assert room.count == 0
        assert room.take() is None

    def test_what_it_holds_is_reserved(self, implementation: type) -> None:
        budget = MemoryBudget(2000)
        room = make(MAKERS, implementation, budget=budget, capacity_bytes=2000, fixed=True)
        assert _put(room, _arrivals([1, 2], 0, fixed=True)) == 2
        assert 0 < budget.held_bytes == budget.peak_bytes <= 2000
        taken = _put(room, _arrivals(list(range(100)), 2, fixed=True))
        assert 0 <= taken < 98

    def test_what_is_not_there_cannot_be_reserved(self, implementation: type) -> None:
        room = make(MAKERS, implementation, budget=MemoryBudget(2000), capacity_bytes=1 << 20, fixed=True)
        with pytest.raises(BudgetError):
            _put(room, _arrivals(list(range(100)), 2, fixed=True))

    @pytest.mark.parametrize("fixed", [True, False])
    @given(
        batches=st.lists(st.lists(st.integers(0, 12), max_size=60), max_size=8),
        capacity_bytes=st.sampled_from([800, 3000, 1 << 20]),
    )
    def test_everyone_who_came_is_given_back_once_with_the_right_key(
        self, implementation: type, fixed: bool, batches: list[list[int]], capacity_bytes: int
    ) -> None:
        budget = MemoryBudget(capacity_bytes)
        room = make(MAKERS, implementation, budget=budget, capacity_bytes=capacity_bytes, fixed=fixed)
        waited: dict[int, bytes] = {}
        served: dict[int, bytes] = {}
        for numbers in batches:
            first_id = len(waited)
            arrivals = _arrivals(numbers, first_id, fixed=fixed)
            texts = arrivals.keys.to_binary().to_pylist()
            waited.update({first_id + i: text for i, text in enumerate(texts)})
            start = 0
            while start < len(numbers):
                before, space = room.count, room.space(arrivals.row_bytes)
                assert space > 0 or before > 0
                taken = room.put(arrivals, np.arange(start, len(numbers)))
                assert 0 <= taken <= len(numbers) - start
                assert room.count == before + taken
                room.check_invariants()
                start += taken
                if start < len(numbers):
                    self._take(room, served)
                    room.settle()
            room.settle()
            room.check_invariants()
        self._take(room, served)
        assert served == waited
        budget.check_invariants()

    @pytest.mark.parametrize("fixed", [True, False])
    @given(
        rows=st.integers(1, 200),
        note=st.sampled_from(["", "x" * 7, "x" * 100]),
        flags=st.sampled_from([0, 1, 12]),
        capacity_bytes=st.sampled_from([1200, 3000, 20_000]),
        parts=st.lists(st.integers(1, 100), max_size=4),
    )
    def test_it_takes_as_many_rows_of_a_size_as_it_says(
        self,
        implementation: type,
        fixed: bool,
        rows: int,
        note: str,
        flags: int,
        capacity_bytes: int,
        parts: list[int],
    ) -> None:
        room = make(
            MAKERS,
            implementation,
            budget=MemoryBudget(capacity_bytes),
            capacity_bytes=capacity_bytes,
            fixed=fixed,
        )
        alike = [28 * (400 + i) for i in range(rows)]  # texts of one length
        arrivals, start = _arrivals(alike, 0, fixed=fixed, note=note, flags=flags), 0
        for part in [*parts, rows]:
            space, stop = room.space(arrivals.row_bytes), min(rows, start + part)
            taken = room.put(arrivals, np.arange(start, stop)) if stop > start else 0
            assert taken >= min(space, stop - start)
            start += taken

    @pytest.mark.parametrize("fixed", [True, False])
    def test_a_row_that_never_fits_is_refused_or_waits_alone_where_it_is(
        self, implementation: type, fixed: bool
    ) -> None:
        budget = MemoryBudget(1000)
        room = make(MAKERS, implementation, budget=budget, capacity_bytes=1000, fixed=fixed)
        arrivals = _arrivals([1, 2], 0, fixed=fixed, note="x" * 2000)
        try:
            assert _put(room, arrivals) == 1
        except BudgetError as refused:
            assert "while it waits" in str(refused)  # noqa: PT017
            return
        assert room.space(arrivals.row_bytes) == 0
        budget.check_invariants()
        served: dict[int, bytes] = {}
        self._take(room, served)
        assert list(served) == [0]

    def _take(self, room: Any, served: dict[int, bytes]) -> None:
        expected, waiting = room.count, room.take()
        assert room.count == 0
        if waiting is None:
            assert expected == 0
            return
        texts = waiting.keys.to_binary().to_pylist()
        places = list(zip(waiting.shards.tolist(), texts, strict=True))
        assert places == sorted(set(places))
        assert len(set(texts)) == len(texts)
        assert waiting.starts[0] == 0
        assert waiting.starts[-1] == waiting.order.size == expected
        assert (waiting.sightings >= 1).all()
        assert len(set(waiting.order.tolist())) == expected
        assert 0 <= waiting.order.min() <= waiting.order.max() < waiting.rows.pair_bytes.size
        rows = waiting.rows.take(waiting.order)
        assert rows.num_rows == expected
        ids = np.asarray(rows.column(0))
        assert waiting.rows.numbers(0, waiting.order).tolist() == ids.tolist()
        column = rows.column(1)
        shards = KeyEncoder([column.type]).shards([column], SHARDS)
        for k, text in enumerate(texts):
            for row in range(waiting.starts[k], waiting.starts[k + 1]):
                assert int(ids[row]) not in served
                served[int(ids[row])] = text
                assert shards[row] == waiting.shards[k]
