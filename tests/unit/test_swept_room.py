"""Rows that wait where their keys are in R."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import Arrivals, Waiting
from semistream.core.keys import KeyEncoder
from semistream.errors import StoreError
from semistream.testing.fakes import EvenShard, key_column
from semistream.waiting_room.swept_room import SweptRoom, swept_parts

PARTS = 8


def arrivals(numbers: list[int], first_id: int = 0, *, fixed: bool = True, shards: int = 1) -> Arrivals:
    keys = key_column(numbers, fixed=fixed)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(first_id, first_id + len(numbers)), pa.int64()), keys], names=["id", "key"]
    )
    encoder = KeyEncoder([keys.type])
    return Arrivals(
        batch=batch, keys=encoder.encode([keys]), key_positions=(1,), encoder=encoder, shards=shards
    )


def swept(
    capacity: int = 1 << 20, *, shards: int = 1, parts: int = PARTS, now: Any = lambda: 0.0
) -> SweptRoom:
    opened: Any = {shard: EvenShard(64) for shard in range(shards)}
    room = SweptRoom(MemoryBudget(capacity), lambda: capacity, opened, parts=parts, now=now)
    room.is_swept = True
    return room


def put(room: SweptRoom, batch: Arrivals) -> int:
    return room.put(batch, np.arange(batch.batch.num_rows))


def ids(waiting: Waiting | None) -> list[int]:
    assert waiting is not None
    return waiting.rows.take(waiting.order).column(0).to_pylist()


def spread(count: int) -> list[int]:
    """Keys all over the place."""
    return [-(1 << 63) + i * ((1 << 64) // count) for i in range(count)]


def test_parts_are_taken_in_turn_and_those_behind_the_hand_wait_for_the_next_round() -> None:
    room = swept()
    keys = spread(PARTS)
    assert put(room, arrivals(keys)) == PARTS
    assert [ids(room.take_next()) for _ in range(3)] == [[0], [1], [2]]
    put(room, arrivals([keys[1], keys[4]], first_id=100))
    assert [ids(room.take_next()) for _ in range(6)] == [[3], [4, 101], [5], [6], [7], [100]]
    assert room.take_next() is None
    assert room.cycles == 1
    room.check_invariants()


def test_a_room_that_is_not_swept_gives_everyone_at_once() -> None:
    room = swept()
    room.is_swept = False
    put(room, arrivals(spread(PARTS)))
    assert ids(room.take_next()) == list(range(PARTS))
    assert (room.count, room.cycles) == (0, 1)


def test_rows_sorted_in_leave_part_after_part_although_nobody_is_sorted_in_any_more() -> None:
    room = swept()
    put(room, arrivals(spread(PARTS)))
    assert ids(room.take_next()) == [0]
    room.is_swept = False
    put(room, arrivals(spread(PARTS), first_id=100))
    assert [ids(room.take_next()) for _ in range(PARTS - 1)] == [[i] for i in range(1, PARTS)]
    assert ids(room.take_next()) == list(range(100, 100 + PARTS))


def test_of_a_part_that_is_too_full_the_first_leave_first() -> None:
    room = swept(60_000)
    taken = put(room, arrivals([7] * 4000))
    assert 0 < taken < 4000
    first = ids(room.take_next())
    assert first == list(range(len(first)))
    assert len(first) < taken
    room.check_invariants()
    rest = []
    while room.count:
        rest += ids(room.take_next())
        room.check_invariants()
    assert first + rest == list(range(taken))


def test_who_waited_longest_can_be_taken_first() -> None:
    moment = [0.0]
    room = swept(now=lambda: moment[0])
    keys = spread(PARTS)
    assert room.oldest_s == math.inf
    for time_s, part in ((1.0, 5), (2.0, 0), (3.0, 3)):
        moment[0] = time_s
        put(room, arrivals([keys[part]], first_id=part))
        room._sort_in()
    assert room.oldest_s == 1.0
    assert ids(room.take_next(oldest=True)) == [5]
    assert room.oldest_s == 2.0
    assert ids(room.take_next()) == [0]


def test_no_more_rows_than_it_is_told() -> None:
    room = swept()
    room.rows_max = 10
    assert room.space(20.0) == 10
    put(room, arrivals(spread(10)))
    assert room.space(20.0) == 0


def test_a_room_that_is_swept_holds_more_rows_in_the_same_bytes() -> None:
    held = {}
    for is_swept in (False, True):
        room = swept(4 << 20, parts=64)
        room.is_swept = is_swept
        start = 0
        while (space := room.space(25.0)) > 1:
            numbers = [(i * 2654435761) % (1 << 60) for i in range(start, start + space)]
            start += put(room, arrivals(numbers, start))
        held[is_swept] = room.count
    assert held[True] > 2.5 * held[False]


def test_a_room_that_shrinks_below_what_it_holds_empties_in_large_parts() -> None:
    capacity = [1 << 20]
    shards: Any = {0: EvenShard(64)}
    room = SweptRoom(MemoryBudget(1 << 20), lambda: capacity[0], shards, parts=PARTS)
    room.is_swept = True
    while (space := room.space(25.0)) > 1:
        put(room, arrivals(spread(space)))
    before = room.count
    capacity[0] //= 2
    assert room.space(25.0) == 0
    steps = 0
    while room.space(25.0) == 0:
        room.take_next()
        steps += 1
    assert steps < 2 * PARTS
    assert room.count < before
    room.check_invariants()


def test_a_row_of_a_shard_that_is_not_served_is_refused() -> None:
    room = swept(shards=1)
    put(room, arrivals(spread(20), shards=2))
    with pytest.raises(StoreError, match="shard 1"):
        room.take_next()


@given(
    steps=st.lists(
        st.one_of(
            st.lists(st.integers(-(1 << 62), 1 << 62), min_size=1, max_size=80),
            st.sampled_from(["take", "swept", "whole", "oldest"]),
        ),
        max_size=30,
    ),
    fixed=st.booleans(),
    capacity=st.sampled_from([6000, 60_000, 1 << 20]),
)
def test_everyone_leaves_once_in_key_order_whatever_happens(
    steps: list[list[int] | str], fixed: bool, capacity: int
) -> None:
    room = swept(capacity, shards=2)
    waited: dict[int, bytes] = {}
    left: dict[int, bytes] = {}

    def take(*, oldest: bool = False) -> None:
        waiting = room.take_next(oldest=oldest)
        if waiting is None:
            assert room.count == 0
            return
        texts = waiting.keys.to_binary().to_pylist()
        places = list(zip(waiting.shards.tolist(), texts, strict=True))
        assert places == sorted(set(places))
        found = ids(waiting)
        for k, text in enumerate(texts):
            for row in range(waiting.starts[k], waiting.starts[k + 1]):
                assert found[row] not in left
                left[found[row]] = text

    for step in steps:
        if step in ("swept", "whole"):
            room.is_swept = step == "swept"
        elif isinstance(step, str):
            take(oldest=step == "oldest")
        else:
            batch = arrivals(step, len(waited), fixed=fixed, shards=2)
            waited.update(
                {len(waited) + i: text for i, text in enumerate(batch.keys.to_binary().to_pylist())}
            )
            start = 0
            while start < len(step):
                start += room.put(batch, np.arange(start, len(step)))
                if start < len(step):
                    take()
        room.check_invariants()
    while room.count:
        take()
    assert left == waited
    assert room._reservation.size_bytes == 0 or room.is_swept


def test_parts_follow_the_memory() -> None:
    assert swept_parts(10_000, 28.0) == 1
    assert swept_parts(1 << 20, 28.0) == 64
    assert swept_parts(1 << 18, 28.0) == 18
