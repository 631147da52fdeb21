"""The threshold front stage: who enters, whom it overwrites, and where the threshold goes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import front_stages as fs

from semistream.front_stage.frequency import FrequencyDetector, RecentKeys
from semistream.front_stage.key_counts import KeyCounts
from semistream.front_stage.threshold import ThresholdFrontStage, ThresholdSettings
from semistream.testing.fakes import encode_keys


def make(
    size_bytes: int = 1 << 16, *, detector: FrequencyDetector | None = None, **settings: float
) -> ThresholdFrontStage:
    return ThresholdFrontStage(
        size_bytes,
        layout=fs.LAYOUT,
        fixed=True,
        row_bytes=60.0,
        decode_bytes=1 << 16,
        settings=ThresholdSettings(**settings),  # type: ignore[arg-type]
        detector=detector,
    )


@pytest.mark.parametrize("threshold", [1, 2, 5])
def test_a_key_enters_from_the_threshold_on(threshold: int) -> None:
    stage = make(threshold=threshold)
    fs.bring(stage, {f: f for f in range(1, 9)}, lambda _: 5)
    assert fs.ask(stage, list(range(1, 9))) == list(range(1, threshold))
    assert fs.report(stage).switched == 9 - threshold


@pytest.mark.parametrize("absent_keys", [False, True])
def test_keys_that_the_table_lacks_come_in_if_asked_for(absent_keys: bool) -> None:
    stage = make(threshold=2, absent_keys=absent_keys)
    fs.bring(stage, {1: 3, 2: 3}, lambda n: 5 if n == 1 else None)
    assert fs.ask(stage, [1, 2]) == ([] if absent_keys else [2])


def test_it_overwrites_the_least_frequent_of_them_the_oldest() -> None:
    stage = make(2600, threshold=1)
    fs.bring(stage, {n: 2 + n % 3 for n in range(40)}, lambda _: 5)
    full = [n for each in fs.held(stage, range(40)) for n in each]
    assert len(full) < 40
    fs.bring(stage, {50: 1}, lambda _: 5)
    after = [n for each in fs.held(stage, range(60)) for n in each]
    assert after == [50, *full[1:]]  # the newcomer is the least frequent now, and the next one to leave
    fs.bring(stage, {51: 9}, lambda _: 5)
    assert [n for each in fs.held(stage, range(60)) for n in each] == [*full[1:], 51]


def test_accesses_are_recorded() -> None:
    stage = make(2600, threshold=1)
    fs.bring(stage, dict.fromkeys(range(8), 1), lambda _: 5)
    fs.ask(stage, [3, 3, 5])
    assert fs.held(stage, range(8))[:4] == [[], [0, 1, 2, 4, 6, 7], [5], [3]]


def test_a_key_that_came_in_while_rows_wait_for_it_gets_their_frequency() -> None:
    stage = make(threshold=2)
    fs.bring(stage, {1: 2}, lambda _: 5, leaving=False)
    fs.bring(stage, {1: 7}, lambda _: 5)
    assert fs.held(stage, [1])[7] == [1]
    assert fs.report(stage).front_stage_keys == 1


def test_the_threshold_goes_down_while_the_cache_is_not_full() -> None:
    stage, seen = make(1 << 21, threshold=6), []
    for batch in range(8):
        fs.drain(stage, list(range(2000 * batch, 2000 * batch + 1000)))  # no key comes twice
        seen.append(stage.threshold)
    assert seen == [5, 4, 3, 2, 1, 1, 1, 1]


def test_the_threshold_goes_up_when_evictions_are_frequent() -> None:
    stage = make(threshold=1)
    for batch in range(3):  # each time all of it is exchanged
        fs.drain(stage, list(range(2000 * batch, 2000 * batch + 1000)) * (batch + 1))
        assert stage.threshold == batch + 2
    for batch in range(3, 20):  # now nobody is frequent enough, and the cache stays as it is
        fs.drain(stage, list(range(2000 * batch, 2000 * batch + 1000)))
    assert stage.threshold == 4
    assert fs.report(stage).front_stage_bytes > 0.9 * (1 << 16)


def test_a_fixed_threshold_stays() -> None:
    stage = make(threshold=6, adaptive=False)
    for batch in range(5):
        fs.drain(stage, list(range(2000 * batch, 2000 * batch + 1000)))
    assert stage.threshold == 6


def test_it_follows_drift() -> None:
    stage, rng = make(1 << 15, threshold=3), np.random.default_rng(1)
    for first in (0, 10_000):
        for _ in range(30):
            hits = fs.drain(stage, [first + n for n in fs.zipf(rng, 2000, 1000, 1.2)])
        assert hits > 550


def test_with_recent_keys_a_key_enters_when_it_comes_twice_within_the_span() -> None:
    recent = RecentKeys(16 * 16)
    stage = make(detector=recent, threshold=2, adaptive=False)
    for number in (1, 2, 1):
        fs.drain(stage, [number])
    assert fs.ask(stage, [1, 2]) == [2]
    for number in range(100, 100 + recent.span_keys):  # the buffer is emptied, and 2 is forgotten
        fs.drain(stage, [number])
    fs.drain(stage, [2])
    assert fs.ask(stage, [1, 2]) == [2]
    fs.drain(stage, [2])
    assert fs.ask(stage, [1, 2]) == []


def test_the_detector_is_part_of_the_bytes() -> None:
    recent = RecentKeys(4000)
    stage = make(10_000, detector=recent)
    assert stage._table.size_bytes + recent.size_bytes <= 10_000


_adds = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=60)


@given(adds=_adds, renew=st.booleans(), slots=st.sampled_from([8, 13, 40]), at_once=st.integers(1, 9))
def test_key_counts_are_a_counter(adds: list[tuple[int, int]], renew: bool, slots: int, at_once: int) -> None:
    counts, twin = KeyCounts(16 * slots, renew=renew), Counter[int]()
    room = int(slots * 3 / 4)
    for start in range(0, len(adds), at_once):
        some = dict(adds[start : start + at_once])
        expected = []
        for number, increment in some.items():
            if number not in twin and len(twin) == room:
                if not renew:
                    expected.append(increment)
                    continue
                twin.clear()
            twin[number] += increment
            expected.append(twin[number])
        totals = counts.add(encode_keys(list(some), fixed=True), np.array(list(some.values()), np.int64))
        assert totals.tolist() == expected
        assert counts.keys == len(twin)
    asked = encode_keys(list(range(40)), fixed=True)
    assert counts.look_up(asked).tolist() == [twin.get(n, -1) for n in range(40)]
    counts.clear()
    assert counts.look_up(asked).tolist() == [-1] * 40
