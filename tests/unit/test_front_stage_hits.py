"""Who has more hits on a Zipf stream, and the bounds that nobody passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import front_stages as fs

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import FrontStage
from semistream.front_stage.balanced import BalancedFrontStage
from semistream.front_stage.clairvoyant import ClairvoyantFrontStage, belady_hits, only
from semistream.front_stage.density import DensityFrontStage
from semistream.front_stage.lru import LruFrontStage
from semistream.front_stage.region import Region
from semistream.front_stage.s3_fifo import S3FifoFrontStage
from semistream.front_stage.threshold import ThresholdFrontStage
from semistream.front_stage.w_tinylfu import WTinyLfuFrontStage
from semistream.testing.fakes import encode_keys

KEYS, BATCH_ROWS, WIDTH = 4000, 500, 80
SIZE_BYTES = 1 << 16  # about 400 keys


def _density() -> FrontStage:
    return DensityFrontStage(
        Region.private(SIZE_BYTES),
        layout=fs.LAYOUT,
        fixed=True,
        identity="hits",
        row_bytes=float(WIDTH),
        decode_bytes=1 << 16,
        reservation=MemoryBudget(SIZE_BYTES).reserve("front stage", SIZE_BYTES),
    )


def _balanced() -> FrontStage:
    return BalancedFrontStage(
        MemoryBudget(SIZE_BYTES),
        bytes_max=SIZE_BYTES,
        layout=fs.LAYOUT,
        fixed=True,
        row_bytes=float(WIDTH),
        waiting_row_bytes=100.0,
        decode_bytes=1 << 16,
    )


def _of(kind: type, **settings: Any) -> Callable[[], FrontStage]:
    return lambda: kind(
        SIZE_BYTES, layout=fs.LAYOUT, fixed=True, row_bytes=float(WIDTH), decode_bytes=1 << 16, **settings
    )


MAKERS: dict[str, Callable[[], FrontStage]] = {
    "clairvoyant": _of(ClairvoyantFrontStage, probabilities=fs.zipf_probabilities(KEYS)),
    "density": _density,
    "threshold": _of(ThresholdFrontStage),
    "balanced": _balanced,
    "w_tinylfu": _of(WTinyLfuFrontStage),
    "s3_fifo": _of(S3FifoFrontStage),
    "lru": _of(LruFrontStage),
}


@cache
def hit_ratio(name: str) -> float:
    """Of the second half of the stream."""
    stage, rng, hits = MAKERS[name](), np.random.default_rng(7), 0
    for batch in range(60):
        found = fs.drain(stage, fs.zipf(rng, KEYS, BATCH_ROWS), lambda _: WIDTH)
        hits += found if batch >= 30 else 0
    stage.check_invariants()
    return hits / (30 * BATCH_ROWS)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "clairvoyant"])
def test_nobody_is_better_than_who_knows_all(name: str) -> None:
    assert hit_ratio("clairvoyant") >= hit_ratio(name)


def test_a_recorder_is_not_much_worse_than_recency_and_the_inequality_is_about_memory() -> None:
    assert hit_ratio("threshold") >= hit_ratio("lru") - 0.02
    assert hit_ratio("balanced") >= hit_ratio("lru") - 0.08


@pytest.mark.parametrize("name", ["density", "w_tinylfu", "s3_fifo"])
def test_frequency_is_better_than_recency(name: str) -> None:
    assert hit_ratio(name) >= hit_ratio("lru") + 0.02


def test_only_the_given_keys_come_in() -> None:
    chosen = [3, 5, 8]
    stage = _of(ClairvoyantFrontStage, probabilities=only(encode_keys(chosen, fixed=True)))()
    fs.drain(stage, list(range(20)))
    assert fs.ask(stage, list(range(20))) == [n for n in range(20) if n not in chosen]


def best_of_all(keys: tuple[int, ...], keys_max: int) -> int:
    """By trying every set of keys to keep at every step."""

    @cache
    def hits(i: int, held: frozenset[int]) -> int:
        if i == len(keys):
            return 0
        now = held | {keys[i]}
        kept = [held] if keys[i] in held else []
        kept += [frozenset(some) for some in combinations(sorted(now), min(keys_max, len(now)))]
        return (keys[i] in held) + max(hits(i + 1, each) for each in kept)

    return hits(0, frozenset())


@given(keys=st.lists(st.integers(0, 4), max_size=10), keys_max=st.integers(1, 3))
def test_belady_is_the_best_there_is(keys: list[int], keys_max: int) -> None:
    assert belady_hits(np.array(keys, np.int64), keys_max) == best_of_all(tuple(keys), keys_max)


def test_belady_is_a_bound_of_the_clairvoyant() -> None:
    rng = np.random.default_rng(7)
    keys = np.concatenate([fs.zipf(rng, KEYS, BATCH_ROWS) for _ in range(60)]).astype(np.int64)
    capacity = SIZE_BYTES // fs.cost_of(WIDTH)
    assert belady_hits(keys, capacity) / keys.size > hit_ratio("clairvoyant")
