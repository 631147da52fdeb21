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
from semistream.core.contracts import WaitingRoom
from semistream.core.keys import KeyEncoder
from semistream.errors import BudgetError
from semistream.testing.discovery import implementations, make
from semistream.testing.fakes import key_column
from semistream.waiting_room.batch_room import BatchRoom

MAKERS: Mapping[type, Callable[..., Any]] = {
    BatchRoom: lambda budget, capacity_bytes: BatchRoom(budget, capacity_bytes),
}
SHARDS = 3


def _arrivals(numbers: list[int], first_id: int, *, fixed: bool) -> tuple[pa.RecordBatch, Any, Any]:
    keys = key_column(numbers, fixed=fixed)
    ids = pa.array(range(first_id, first_id + len(numbers)), pa.int64())
    encoder = KeyEncoder([keys.type])
    batch = pa.RecordBatch.from_arrays([ids, keys], names=["id", "key"])
    return batch, encoder.encode([keys]), encoder.shards([keys], SHARDS)


@pytest.mark.parametrize("implementation", implementations(WaitingRoom, "semistream.waiting_room"))
class WaitingRoomContract:
    """Subclass it in a test module to run it."""

    def test_can_be_made(self, implementation: type) -> None:
        room = make(MAKERS, implementation, budget=MemoryBudget(1 << 16), capacity_bytes=1 << 16)
        room.check_invariants()
        assert room.count == 0
        assert room.take() is None

    def test_what_it_holds_is_reserved(self, implementation: type) -> None:
        budget = MemoryBudget(2000)
        room = make(MAKERS, implementation, budget=budget, capacity_bytes=1 << 20)
        assert room.put(*_arrivals([1, 2], 0, fixed=True)) == 2
        assert 0 < budget.held_bytes == budget.peak_bytes
        with pytest.raises(BudgetError):
            room.put(*_arrivals(list(range(100)), 2, fixed=True))

    @pytest.mark.parametrize("fixed", [True, False])
    @given(
        batches=st.lists(st.lists(st.integers(0, 12), max_size=60), max_size=8),
        capacity_bytes=st.sampled_from([800, 3000, 1 << 20]),
    )
    def test_everyone_who_came_is_given_back_once_with_the_right_key(
        self, implementation: type, fixed: bool, batches: list[list[int]], capacity_bytes: int
    ) -> None:
        budget = MemoryBudget(capacity_bytes)
        room = make(MAKERS, implementation, budget=budget, capacity_bytes=capacity_bytes)
        waited: dict[int, bytes] = {}
        served: dict[int, bytes] = {}
        for numbers in batches:
            first_id = len(waited)
            batch, keys, shards = _arrivals(numbers, first_id, fixed=fixed)
            texts = keys.to_binary().to_pylist()
            waited.update({first_id + i: text for i, text in enumerate(texts)})
            while batch.num_rows:
                before = room.count
                taken = room.put(batch, keys, shards)
                assert 0 <= taken <= batch.num_rows
                assert room.count == before + taken
                room.check_invariants()
                if taken < batch.num_rows:
                    self._take(room, served)
                batch, shards, keys = batch.slice(taken), shards[taken:], keys.slice(taken, len(keys))
        self._take(room, served)
        assert served == waited
        budget.check_invariants()

    @pytest.mark.parametrize("fixed", [True, False])
    def test_a_row_that_never_fits_is_refused(self, implementation: type, fixed: bool) -> None:
        room = make(MAKERS, implementation, budget=MemoryBudget(1000), capacity_bytes=1000)
        batch, keys, shards = _arrivals([1], 0, fixed=fixed)
        wide = batch.append_column("wide", pa.array(["x" * 2000]))
        with pytest.raises(BudgetError, match="while it waits"):
            room.put(wide, keys, shards)

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
        assert waiting.starts[-1] == waiting.rows.num_rows == waiting.order.size == expected
        assert (waiting.sightings >= 1).all()
        assert sorted(waiting.order.tolist()) == list(range(expected))
        ids = np.asarray(waiting.rows.column(0))
        column = waiting.rows.column(1)
        shards = KeyEncoder([column.type]).shards([column], SHARDS)
        for k, text in enumerate(texts):
            for row in waiting.order[waiting.starts[k] : waiting.starts[k + 1]].tolist():
                assert int(ids[row]) not in served
                served[int(ids[row])] = text
                assert shards[row] == waiting.shards[k]
