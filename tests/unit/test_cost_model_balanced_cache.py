"""SSBJ's cache as counts fill it, against three states and ten cycles played through."""

from __future__ import annotations

import numpy as np
import pytest

from semistream.cost_model.balanced_cache import cached_share, hit_ratio
from semistream.cost_model.frequencies import KeyProfile, zipf_profile

CYCLES = 3000


def played(n: np.ndarray, theta: float) -> np.ndarray:
    """The share of cycles that each key is cached; its rows come at random, n_j a cycle."""
    random = np.random.default_rng(3)
    cached, judged = np.zeros(n.size, bool), np.zeros(n.size, bool)
    hopeful, hits, there = np.zeros(n.size, bool), np.zeros(n.size), np.zeros(n.size)
    for cycle in range(1, CYCLES + 1):
        rows = random.poisson(n)
        there += cached
        hits += rows
        entering = np.zeros(n.size, bool)
        if cycle % 3 == 1:
            hopeful = ~cached & (rows > theta)
        elif cycle % 3 == 2:
            entering = hopeful & (rows > theta)
        if cycle % 10 == 0:
            cached &= ~(judged & (hits / 10 <= theta))
            judged, hits = cached.copy(), np.zeros(n.size)
        cached |= entering
    return there / CYCLES


@pytest.mark.parametrize("theta", [1.1, 6.0])
def test_the_share_of_time_that_a_key_is_cached(theta: float) -> None:
    n = theta * np.array([0.2, 0.5, 0.8, 0.95, 1.1, 1.5, 4.0])
    found = played(np.repeat(n, 200), theta).reshape(n.size, 200).mean(axis=1)
    assert cached_share(n, theta) == pytest.approx(found, rel=0.1, abs=0.03)


def test_counts_that_are_large_are_as_good_as_exact() -> None:
    assert cached_share(np.array([0.9, 1.1]) * 50_000, 50_000.0) == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize("theta", [1.1, 6.0, 2000.0])
def test_a_cache_filled_by_counts_answers_less_than_the_hottest_keys(theta: float) -> None:
    keys = zipf_profile(100_000, 1.0)
    ratios = [hit_ratio(keys, h, theta) for h in (0.0, 100.0, 1000.0, 10_000.0, 100_000.0)]
    assert ratios == sorted(ratios)
    assert (ratios[0], ratios[-1]) == (0.0, 1.0)
    for h, ratio in zip((100.0, 1000.0, 10_000.0), ratios[1:], strict=False):
        best = float(keys.top(h))
        assert best * (0.85 if theta < 2 else 0.97) < ratio < best * 1.002


def test_all_keys_alike() -> None:
    alike = KeyProfile.of(np.array([1000.0]), np.array([1e-3]))
    assert hit_ratio(alike, 250.0, 3.0) == pytest.approx(0.25)
