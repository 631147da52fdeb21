"""Front stages over the entry table against models of dicts and lists: who stays, in which order, and how many bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import front_stages as fs
from tests.twins import SketchTwin

from semistream.front_stage.clairvoyant import ClairvoyantFrontStage
from semistream.front_stage.lru import LruFrontStage
from semistream.front_stage.s3_fifo import S3FifoFrontStage
from semistream.front_stage.threshold import ThresholdFrontStage, ThresholdSettings
from semistream.front_stage.w_tinylfu import WTinyLfuFrontStage

KEYS = 60
WIDTHS = [None, 0, 3, 40, 41, 120]
SIZE_BYTES = 4096


def width_of(number: int) -> int | None:
    return WIDTHS[number % len(WIDTHS)]


def probability_of(number: int) -> float:
    return 0.0 if number % 10 == 9 else 1 / (1 + number // 3)


class Model:
    """Lists of keys. `come` is told of a new key with its frequency, `hit` of a row that found its key."""

    def __init__(self, stage: Any, lists: int) -> None:
        self.lists: list[list[int]] = [[] for _ in range(lists)]
        self.word: dict[int, int] = {}
        self.capacity = stage._table.capacity_bytes

    @property
    def keys(self) -> list[int]:
        return [key for each in self.lists for key in each]

    def cost(self, key: int) -> int:
        return fs.cost_of(width_of(key))

    def bytes_of(self, *which: int) -> int:
        lists = which or range(len(self.lists))
        return sum(self.cost(key) for i in lists for key in self.lists[i])

    def full(self, key: int) -> bool:
        return self.bytes_of() + self.cost(key) > self.capacity

    def where(self, key: int) -> int:
        return next(i for i, each in enumerate(self.lists) if key in each)

    def move(self, key: int, which: int) -> None:
        self.lists[self.where(key)].remove(key)
        self.lists[which].append(key)

    def drop(self, key: int) -> None:
        self.lists[self.where(key)].remove(key)

    def row(self, key: int) -> None:
        """Some row was looked up."""

    def hit(self, key: int) -> None: ...

    def come(self, key: int, sightings: int) -> None: ...

    def adapt(self) -> None: ...


class Lru(Model):
    def hit(self, key: int) -> None:
        self.move(key, 0)

    def come(self, key: int, sightings: int) -> None:
        while self.full(key):
            self.drop(self.lists[0][0])
        self.lists[0].append(key)


class Threshold(Model):
    """Without a recorder of its own: the list is the frequency."""

    accesses = 0

    def hit(self, key: int) -> None:
        self.accesses += 1
        if self.where(key) < 15:
            self.move(key, self.where(key) + 1)

    def come(self, key: int, sightings: int) -> None:
        if sightings >= 2:
            while self.full(key):
                self.drop(self.keys[0])
            self.lists[min(sightings, 15)].append(key)
            self.accesses += min(sightings, 256)

    def adapt(self) -> None:
        if self.accesses >= 16 * max(1, len(self.keys)):
            halves = [self.lists[2 * i] + self.lists[2 * i + 1] for i in range(8)]
            self.lists, self.accesses = halves + [[] for _ in range(8)], 0


class S3Fifo(Model):
    def __init__(self, stage: Any, lists: int) -> None:
        super().__init__(stage, lists)
        self.small_max = int(self.capacity / 10)
        self.lines: list[list[tuple[int, int]]] = [[] for _ in range(len(stage._ghosts) // 4)]
        self.time = 0

    def ghosts(self, key: int) -> tuple[int, list[tuple[int, int]]]:
        tag = fs.hash_of(key) >> 32
        return tag, self.lines[tag * len(self.lines) >> 32]

    def hit(self, key: int) -> None:
        self.word[key] = min(self.word[key] + 1, 3)

    def come(self, key: int, sightings: int) -> None:
        while self.full(key):
            self.evict()
        tag, line = self.ghosts(key)
        mine = [each for each in line if each[0] == tag and self.time - each[1] < 4 * len(self.lines)]
        for each in mine:
            line.remove(each)
        self.word[key] = 0
        self.lists[1 if mine else 0].append(key)

    def evict(self) -> None:
        small, main = self.lists
        while small and (self.bytes_of(0) >= self.small_max or not main):
            key = small[0]
            if self.word[key] <= 1:
                self.time += 1
                tag, line = self.ghosts(key)
                line.append((tag, self.time))
                del line[:-4]
                self.drop(key)
                return
            self.word[key] = 0
            self.move(key, 1)
            if self.bytes_of(1) > self.capacity - self.small_max:
                break
        while self.word[main[0]]:
            self.word[main[0]] -= 1
            self.move(main[0], 1)
        self.drop(main[0])


class WTinyLfu(Model):
    def __init__(self, stage: Any, lists: int) -> None:
        super().__init__(stage, lists)
        self.window_max = int(self.capacity / 100)
        self.main_max = self.capacity - self.window_max
        self.sketch, self.expected, self.counted = SketchTwin(stage._lines), stage._expected, 0

    def row(self, key: int) -> None:
        self.sketch.raised(fs.hash_of(key), 1, 0)
        self.counted += 1

    def hit(self, key: int) -> None:
        self.move(key, 2 if self.where(key) else 0)
        while self.bytes_of(2) > int(self.main_max * 0.8):
            self.move(self.lists[2][0], 1)

    def come(self, key: int, sightings: int) -> None:
        self.lists[0].append(key)
        while self.bytes_of(0) > self.window_max:
            candidate = self.lists[0][0]
            while self.bytes_of(1, 2) + self.cost(candidate) > self.main_max:
                victim = [*self.lists[1], *self.lists[2]][0]
                if self.seen(candidate) <= self.seen(victim):
                    self.drop(candidate)
                    break
                self.drop(victim)
            else:
                self.move(candidate, 1)

    def seen(self, key: int) -> int:
        return self.sketch.raised(fs.hash_of(key), 0, 0)

    def adapt(self) -> None:
        if self.counted >= 10 * max(self.expected, len(self.keys)):
            self.sketch.halve()
            self.counted //= 2


class Clairvoyant(Model):
    def __init__(self, stage: Any, lists: int) -> None:
        super().__init__(stage, lists)
        self.capacity = SIZE_BYTES

    def cost(self, key: int) -> int:
        """Only the key and its rows."""
        return super().cost(key) - 40

    def place(self, key: int) -> int:
        """Eight classes of density per power of two."""
        density = probability_of(key) / self.cost(key)
        power = 0
        while density < 0.5**power:
            power += 1
        return 512 - 8 * power + int(8 * (density * 2**power - 1))

    def come(self, key: int, sightings: int) -> None:
        if probability_of(key) == 0:
            return
        mine = self.place(key)
        while self.full(key) and self.place(self.keys[0]) < mine:
            self.drop(self.keys[0])
        if not self.full(key):
            self.lists[mine].append(key)


def _make(kind: type, **settings: Any) -> Callable[[], Any]:
    return lambda: kind(
        SIZE_BYTES, layout=fs.LAYOUT, fixed=True, row_bytes=60.0, decode_bytes=4096, **settings
    )


def _probabilities(keys: Any) -> np.ndarray:
    numbers = (keys.prefix ^ np.uint64(1 << 63)).astype(np.int64)
    return np.array([probability_of(n) for n in numbers.tolist()])


POLICIES: dict[str, tuple[Callable[[], Any], type[Model]]] = {
    "lru": (_make(LruFrontStage), Lru),
    "threshold": (
        _make(ThresholdFrontStage, settings=ThresholdSettings(adaptive=False, absent_keys=True)),
        Threshold,
    ),
    "s3_fifo": (_make(S3FifoFrontStage), S3Fifo),
    "w_tinylfu": (_make(WTinyLfuFrontStage), WTinyLfu),
    "clairvoyant": (
        _make(ClairvoyantFrontStage, probabilities=_probabilities),
        Clairvoyant,
    ),
}


@pytest.mark.parametrize("name", POLICIES)
@given(seed=st.integers(0, 2**32 - 1), skew=st.sampled_from([0.5, 1.0, 3.0]))
def test_the_policy_is_its_model(name: str, seed: int, skew: float) -> None:
    make, twin = POLICIES[name]
    stage, rng = make(), Random(seed)
    model = twin(stage, stage._table._lists.shape[0])
    for _ in range(12):
        numbers = [int(KEYS * rng.random() ** (1 + skew)) for _ in range(rng.choice([1, 5, 40]))]
        known = set(model.keys)
        missed = fs.ask(stage, numbers)
        assert missed == [number for number in numbers if number not in known]
        for number in numbers:
            model.row(number)
            if number in known:
                model.hit(number)
        fs.bring(stage, dict(Counter(missed)), width_of)
        for number, sightings in sorted(Counter(missed).items()):
            model.come(number, sightings)
        stage.adapt(0)
        model.adapt()
        stage.check_invariants()
        assert fs.held(stage, range(KEYS)) == model.lists
        assert stage._table.live_bytes == sum(fs.cost_of(width_of(key)) for key in model.keys)
        assert model.bytes_of() <= model.capacity
        assert name == "clairvoyant" or fs.report(stage).front_stage_bytes <= SIZE_BYTES
        assert fs.report(stage).front_stage_keys == len(model.keys)
        assert fs.report(stage).front_stage_rows == sum(width_of(key) is not None for key in model.keys)
