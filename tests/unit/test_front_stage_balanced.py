"""The balanced front stage: the cache inequality, its three states, and a reservation that follows the keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import front_stages as fs

from semistream.core.budget import MemoryBudget
from semistream.front_stage.balanced import BalancedFrontStage, BalancedSettings

WAITING_ROW_BYTES = 40.0


class Key(NamedTuple):
    """A key of R with so many rows of this width (0 rows: R lacks it), asked for n times in a cycle."""

    n: int
    rows: int
    width: int

    @property
    def m_cache(self) -> int:
        return fs.cost_of(self.width if self.rows else None, self.rows) + 4

    @property
    def m_disk(self) -> float:
        return self.n * WAITING_ROW_BYTES

    @property
    def belongs_in_cache(self) -> bool:
        return self.m_cache < self.m_disk


Keys = Mapping[int, Key]


def make(budget: MemoryBudget, *, bytes_max: int = 1 << 20, **settings: float) -> BalancedFrontStage:
    return BalancedFrontStage(
        budget,
        bytes_max=bytes_max,
        layout=fs.LAYOUT,
        fixed=True,
        row_bytes=60.0,
        waiting_row_bytes=WAITING_ROW_BYTES,
        decode_bytes=1 << 16,
        settings=BalancedSettings(**settings),  # type: ignore[arg-type]
    )


def cached(stage: BalancedFrontStage, keys: Keys) -> set[int]:
    """Those that a probe would find. Asking counts, so the lists are read instead."""
    in_cache, _, entered = fs.held(stage, keys)
    return {*in_cache, *entered}


class Scan:
    """A path that reads R in a cycle: n rows of each key that is not cached wait all the time."""

    def __init__(self, stage: BalancedFrontStage) -> None:
        self.stage, self.cycles = stage, 0

    def cycle(self, keys: Keys) -> None:
        asked = [number for number, key in keys.items() for _ in range(key.n)]
        for number in sorted(set(fs.ask(self.stage, asked))):
            self._meet(number, keys[number])
        self.cycles += 1
        self.stage.adapt(self.cycles)
        self.stage.check_invariants()
        self.stage._budget.check_invariants()

    def _meet(self, number: int, key: Key) -> None:
        """R's rows are shown to all who wait for the key. If there are none, one row after the other leaves."""
        if key.rows:
            fs.bring(self.stage, {number: key.n}, lambda _: key.width, rows=key.rows, leaving=False)
        else:
            for _ in range(key.n):
                fs.bring(self.stage, {number: 1}, lambda _: None)


_keys = st.dictionaries(
    st.integers(0, 40),
    st.builds(Key, n=st.integers(0, 12), rows=st.integers(0, 5), width=st.sampled_from([0, 5, 60])),
    max_size=12,
)


@given(before=_keys, keys=_keys)
def test_no_key_sits_in_the_dearer_table(before: Keys, keys: Keys) -> None:
    """003 Theorem 2, and with it Theorem 1: with exact counts the memory is the least there is. Also after drift."""
    stage = make(MemoryBudget(1 << 20))
    scan = Scan(stage)
    rows = {number: key._replace(n=0) for number, key in before.items()}
    both = {
        number: key._replace(rows=rows.get(number, key).rows, width=rows.get(number, key).width)
        for number, key in keys.items()
    }
    for frequencies in (before, {**rows, **both}):
        for _ in range(33):  # an eviction, and a turn of the three states behind it, twice
            scan.cycle(frequencies)
        assert cached(stage, {**before, **keys}) == {
            n for n, key in frequencies.items() if key.belongs_in_cache
        }
        waiting = sum(key.m_disk for key in frequencies.values() if not key.belongs_in_cache)
        in_cache = sum(key.m_cache for key in frequencies.values() if key.belongs_in_cache)
        assert stage._table.live_bytes == in_cache - 4 * stage._table.entries
        assert waiting + in_cache == sum(min(key.m_disk, key.m_cache) for key in frequencies.values())


def test_a_key_takes_three_cycles_to_come_in() -> None:
    keys = {1: Key(n=10, rows=2, width=5), 2: Key(n=1, rows=2, width=5), 3: Key(n=4, rows=0, width=0)}
    stage = make(MemoryBudget(1 << 20))
    scan, seen = Scan(stage), []
    for _ in range(4):
        seen.append((stage.state, cached(stage, keys), set(fs.held(stage, keys)[1])))
        scan.cycle(keys)
    assert seen == [
        ("incrementing", set(), set()),
        ("switching", set(), set()),
        ("phase-out", {1, 3}, set()),
        ("incrementing", {1, 3}, set()),
    ]
    assert fs.report(stage).switched == 2


def test_what_is_switched_waits_in_its_buffer_until_the_phase_out() -> None:
    keys = {1: Key(n=10, rows=2, width=5)}
    stage = make(MemoryBudget(1 << 20))
    Scan(stage).cycle(keys)
    fs.bring(stage, {1: 10}, lambda _: 5, rows=2, leaving=False)
    assert fs.held(stage, keys) == [[], [1], []]
    assert fs.ask(stage, [1]) == [1]
    assert stage._budget.by_name()["front stage"] >= stage._table.held_bytes > stage._table.fixed_bytes
    stage.adapt(2)
    assert fs.ask(stage, [1]) == []


def test_a_key_that_was_not_counted_over_the_incrementing_cycle_is_not_switched() -> None:
    stage = make(MemoryBudget(1 << 20))
    scan = Scan(stage)
    scan.cycle({1: Key(n=10, rows=2, width=5)})
    fs.bring(stage, {1: 10, 2: 10}, lambda _: 5, rows=2, leaving=False)
    assert fs.held(stage, [1, 2])[1] == [1]


@pytest.mark.parametrize("others_are_absent", [False, True])
def test_keys_that_cannot_win_do_not_crowd_out_those_that_can(others_are_absent: bool) -> None:
    """R shows the hot key last, when far more others were met than can be counted."""
    stage, hot = make(MemoryBudget(1 << 20), bytes_max=20_000), 1000
    met = dict.fromkeys(range(hot), 1)
    assert stage._counts.keys_max < hot / 10
    for cycle in range(3):
        if cycle < 2:
            fs.bring(stage, met, lambda _: None if others_are_absent else 20, leaving=others_are_absent)
            fs.bring(stage, {hot: 9}, lambda _: 20, leaving=False)
        stage.adapt(cycle + 1)
    assert fs.ask(stage, [hot]) == []


def test_a_key_with_as_much_on_both_sides_stays_outside() -> None:
    even = Key(n=3, rows=1, width=58)  # 32 + 84 + 4
    assert even.m_cache == even.m_disk
    stage = make(MemoryBudget(1 << 20))
    scan = Scan(stage)
    for _ in range(6):
        scan.cycle({1: even, 2: even._replace(width=54)})
    assert cached(stage, [1, 2]) == {2}  # type: ignore[arg-type]


@pytest.mark.parametrize(("factor", "comes_in"), [(1.0, True), (2.0, False)])
def test_the_switching_factor_asks_for_more_than_the_inequality(factor: float, comes_in: bool) -> None:
    key = Key(n=4, rows=1, width=20)
    assert key.m_cache < key.m_disk < 2 * key.m_cache
    stage = make(MemoryBudget(1 << 20), switching_factor=factor)
    scan = Scan(stage)
    for _ in range(3):
        scan.cycle({1: key})
    assert (cached(stage, {1: key}) == {1}) == comes_in


def test_keys_leave_only_after_every_tenth_cycle() -> None:
    hot, cold = Key(n=9, rows=1, width=5), Key(n=0, rows=1, width=5)
    stage = make(MemoryBudget(1 << 20))
    scan, there = Scan(stage), []
    for cycle in range(30):
        scan.cycle({1: hot if cycle < 3 else cold})
        there.append(cached(stage, {1: hot}) == {1})
    assert (
        there == [False] + [True] * 18 + [False] * 11
    )  # it came in after 2, so ten cycles are full after 20


def test_the_reservation_follows_the_keys() -> None:
    budget = MemoryBudget(1 << 20)
    stage = make(budget)
    empty = budget.held_bytes
    assert empty < 40_000
    scan = Scan(stage)
    hot = {number: Key(n=5, rows=1, width=60) for number in range(300)}
    for _ in range(3):
        scan.cycle(hot)
    grown = budget.held_bytes
    assert 300 * 116 < grown - empty < 1.4 * 300 * 120
    for _ in range(20):
        scan.cycle({number: key._replace(n=0 if number % 10 else 5) for number, key in hot.items()})
    assert cached(stage, hot) == set(range(0, 300, 10))
    assert budget.held_bytes - empty < (grown - empty) / 4
    stage.close()
    assert budget.held_bytes == 0


def test_it_leaves_alone_what_others_hold_and_what_it_may_not_take() -> None:
    keys = {number: Key(n=5, rows=1, width=60) for number in range(300)}
    for total, others, bytes_max in ((30_000, 10_000, 1 << 20), (1 << 20, 0, 20_000)):
        budget = MemoryBudget(total)
        stage = make(budget, bytes_max=bytes_max if others == 0 else 40_000)
        budget.reserve("waiting room", others)
        scan = Scan(stage)
        for _ in range(12):
            scan.cycle(keys)
        assert 60 < len(cached(stage, keys)) < 200
        assert budget.by_name()["front stage"] <= min(total - others, bytes_max)


def looked_up(stage: BalancedFrontStage, keys: Keys, width_of: Callable[[int], int | None]) -> None:
    """A path that looks keys up: who is matched leaves."""
    missed = fs.ask(stage, [number for number, key in keys.items() for _ in range(key.n)])
    fs.bring(stage, {number: missed.count(number) for number in missed}, width_of)
    stage.adapt(0)
    stage.check_invariants()


def test_without_cycles_it_decides_at_once() -> None:
    keys = {number: Key(n=1 + number % 6, rows=1, width=20) for number in range(40)}
    keys |= {40: Key(n=2, rows=0, width=0), 41: Key(n=1, rows=0, width=0)}
    stage = make(MemoryBudget(1 << 20))
    looked_up(stage, keys, lambda n: 20 if keys[n].rows else None)
    assert cached(stage, keys) == {n for n, key in keys.items() if key.belongs_in_cache}


def test_without_cycles_keys_leave_when_those_who_wait_were_exchanged_ten_times() -> None:
    hot = {number: Key(n=6, rows=1, width=20) for number in range(30)}
    others = {number: Key(n=1, rows=1, width=20) for number in range(100, 130)}
    stage = make(MemoryBudget(1 << 20))
    looked_up(stage, hot | others, lambda _: 20)
    assert cached(stage, hot | others) == set(hot)
    for _ in range(180):  # all that wait are exchanged once or more in each
        looked_up(stage, {n: key for n, key in hot.items() if n < 10} | others, lambda _: 20)
    assert cached(stage, hot | others) == set(range(10))
