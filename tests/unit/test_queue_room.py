"""The queue room against a model of Python lists: whatever comes and goes, in whatever order."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import Arrivals
from semistream.core.keys import KeyEncoder
from semistream.testing.fakes import key_column
from semistream.waiting_room.queue_room import QueueRoom, waiting_row_bytes

KEYS = 12


def arrivals_of(numbers: list[int], first_id: int, *, fixed: bool) -> Arrivals:
    keys = key_column(numbers, fixed=fixed)
    ids = pa.array(range(first_id, first_id + len(numbers)), pa.int64())
    encoder = KeyEncoder([keys.type])
    batch = pa.RecordBatch.from_arrays([ids, keys], names=["id", "key"])
    return Arrivals(batch=batch, keys=encoder.encode([keys]), key_positions=(1,), encoder=encoder, shards=3)


class QueueRoomModel(RuleBasedStateMachine):
    """`model` holds (id, key number, stamp, rows met), the oldest first."""

    @initialize(fixed=st.booleans(), exchanged=st.booleans())
    def start(self, fixed: bool, exchanged: bool) -> None:
        self.fixed = fixed
        self.capacity_bytes = 40_000
        self.room = QueueRoom(
            MemoryBudget(40_000), lambda: self.capacity_bytes, fixed=fixed, exchanged=exchanged
        )
        self.model: list[list[int]] = []
        self.next_id = 0

    @rule(numbers=st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=20), data=st.data())
    def put(self, numbers: list[int], data: st.DataObject) -> None:
        arrivals = arrivals_of(numbers, self.next_id, fixed=self.fixed)
        chosen = data.draw(st.lists(st.sampled_from(range(len(numbers))), unique=True, min_size=1))
        index = np.array(sorted(chosen), np.int64)
        taken = self.room.put(arrivals, index)
        self.model += [[self.next_id + i, numbers[i], self.room.stamp, 0] for i in index[:taken].tolist()]
        self.next_id += len(numbers)

    @rule()
    def settle(self) -> None:
        self.room.settle()

    @rule(capacity_bytes=st.sampled_from([3_000, 20_000, 40_000]))
    def another_share(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes

    @rule(more=st.integers(1, 3))
    def later(self, more: int) -> None:
        self.room.stamp += more

    @precondition(lambda self: self.model)
    @rule(data=st.data(), leave=st.booleans())
    def serve(self, data: st.DataObject, leave: bool) -> None:
        """The key of somebody meets rows of R, and may be done with it."""
        share = data.draw(st.sampled_from([0.0, 0.15, 0.5, 1.0]))
        key = self.room.key_at(share)
        number = self.model[int(share * (len(self.model) - 1))][1]
        texts = self.room.key_batch(key).to_binary().to_pylist()
        assert texts == arrivals_of([number], 0, fixed=self.fixed).keys.to_binary().to_pylist()
        waiting = self.room.waiting(key, np.array([2], np.int64), leave=leave)
        ids = waiting.rows.take(waiting.order).column(0).to_pylist()
        assert sorted(ids) == [row[0] for row in self.model if row[1] == number]
        for row in self.model:
            row[3] += 2 * (row[1] == number)
        if leave:
            self.model = [row for row in self.model if row[1] != number]

    @rule(count=st.integers(1, 30), back=st.integers(0, 4))
    def take_oldest(self, count: int, back: int) -> None:
        limit = self.room.stamp - back
        expected = []
        for row in self.model[:count]:
            if row[2] > limit:
                break
            expected.append(row)
        self._check_taken(self.room.take_oldest(count, stamp_max=limit), expected)
        self.model = self.model[len(expected) :]

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 10))
    def take_newest(self, count: int) -> None:
        expected = self.model[-count:]
        self._check_taken(self.room.take_newest(count), expected)
        self.model = self.model[: len(self.model) - len(expected)]

    def _check_taken(self, taken: object, expected: list[list[int]]) -> None:
        if not expected:
            assert taken is None
            return
        waiting, before = taken  # type: ignore[misc]
        ids = waiting.rows.take(waiting.order).column(0).to_pylist()
        found = [
            (i, before[k] > 0)
            for k in range(before.size)
            for i in ids[waiting.starts[k] : waiting.starts[k + 1]]
        ]
        assert sorted(found) == sorted((row[0], row[3] > 0) for row in expected)

    @invariant()
    def holds_together(self) -> None:
        if not hasattr(self, "room"):
            return
        self.room.check_invariants()
        assert self.room.count == len(self.model)
        by_key: dict[int, int] = defaultdict(int)
        for row in self.model:
            by_key[row[1]] += 1


TestQueueRoomModel = QueueRoomModel.TestCase
TestQueueRoomModel.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)


def test_rows_that_left_do_not_keep_the_batches_they_came_with() -> None:
    """One old row stays while thousands pass: what is kept is a small multiple of what waits."""
    room = QueueRoom(MemoryBudget(1 << 20), lambda: 1 << 20, fixed=True)
    room.put(arrivals_of([0], 0, fixed=True), np.arange(1))
    for turn in range(50):
        arrivals = arrivals_of([1] * 1000, 1 + 1000 * turn, fixed=True)
        assert room.put(arrivals, np.arange(1000)) == 1000
        room.settle()
        room.take_newest(1000)
    room.settle()
    assert room.count == 1
    assert room.rows.rows <= 100


@pytest.mark.parametrize("parts", [1, 4, 1000])
def test_a_part_of_the_room_comes_in_at_a_time(parts: int) -> None:
    arrivals = arrivals_of(list(range(500)), 0, fixed=True)
    capacity = int(400.5 * waiting_row_bytes(arrivals.row_bytes))
    room = QueueRoom(MemoryBudget(capacity), lambda: capacity, fixed=True)
    room.split_into(parts)
    space = room.space(arrivals.row_bytes)
    assert space == room.part_rows
    assert abs(space - max(1, 400 // parts)) <= 1
    assert room.put(arrivals, np.arange(space)) == space
    assert room.space(arrivals.row_bytes) == 0
    room.split_into(parts)
    assert room.space(arrivals.row_bytes) == (0 if parts == 1 else space)


def test_no_more_rows_than_it_may_hold() -> None:
    room = QueueRoom(MemoryBudget(1 << 20), lambda: 1 << 20, fixed=True, rows_max=1)
    arrivals = arrivals_of([1, 1, 1], 0, fixed=True)
    assert room.space(arrivals.row_bytes) == 1
    assert room.put(arrivals, np.arange(3)) == 1
    assert room.space(arrivals.row_bytes) == 0
