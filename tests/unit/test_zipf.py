"""The Zipf sampler against exact probabilities, and its bijection against a set."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semistream.errors import SemistreamError
from semistream.workloads.zipf import ZipfConfig, ZipfKeys


def exact_probabilities(keys: int, exponent: float) -> np.ndarray:
    weights = np.array([float(i) ** -exponent for i in range(1, keys + 1)])
    return weights / math.fsum(weights)


@settings(max_examples=60, deadline=None)
@given(keys=st.integers(1, 5000), seed=st.integers(0, 2**40))
def test_every_rank_has_its_own_key_and_finds_its_way_back(keys: int, seed: int) -> None:
    zipf = ZipfKeys(ZipfConfig(keys=keys, seed=seed))
    ranks = np.arange(keys, dtype=np.int64)
    scattered = zipf.keys_of(ranks)
    assert np.array_equal(np.sort(scattered), ranks)
    assert np.array_equal(zipf.ranks_of(scattered), ranks)


@pytest.mark.parametrize("keys", [(1 << 40) - 3, 1 << 40, 100_000_007])
def test_the_bijection_holds_on_a_sample_of_a_huge_key_set(keys: int) -> None:
    zipf = ZipfKeys(ZipfConfig(keys=keys, seed=3))
    ranks = np.unique(np.random.default_rng(0).integers(0, keys, 100_000))
    scattered = zipf.keys_of(ranks)
    assert scattered.min() >= 0
    assert scattered.max() < keys
    assert np.unique(scattered).size == ranks.size
    assert np.array_equal(zipf.ranks_of(scattered), ranks)


def test_hot_keys_are_spread_evenly_over_the_key_range() -> None:
    keys = 1_000_000
    hot = ZipfKeys(ZipfConfig(keys=keys, seed=5)).keys_of(np.arange(50_000, dtype=np.int64))
    in_tenths = np.bincount(hot * 10 // keys, minlength=10)
    # 5000 are expected in each tenth; a random placement strays by about 65.
    assert np.abs(in_tenths - 5000).max() < 400
    gaps = np.diff(np.sort(hot))
    # Gaps of a random placement are geometric: as wide as their mean, not evenly spaced.
    assert 0.9 < gaps.std() / gaps.mean() < 1.1


def test_ranks_stay_keys_when_not_scattered() -> None:
    zipf = ZipfKeys(ZipfConfig(keys=100, scattered=False))
    assert np.array_equal(zipf.keys(batch=0, rows=50), zipf.ranks(batch=0, rows=50))
    assert np.array_equal(zipf.ranks_of(np.arange(100)), np.arange(100))


@pytest.mark.parametrize("exponent", [0.0, 0.5, 0.99, 1.0, 1.0 + 1e-12, 1.3, 2.0, 5.0])
@pytest.mark.parametrize("keys", [1, 2, 17, 1000])
def test_draws_fit_the_exact_probabilities(keys: int, exponent: float) -> None:
    rows = 200_000
    zipf = ZipfKeys(ZipfConfig(keys=keys, exponent=exponent, seed=11))
    counts = np.bincount(zipf.ranks(batch=0, rows=rows), minlength=keys)
    assert counts.size == keys
    expected = exact_probabilities(keys, exponent) * rows
    # Ranks too rare for chi-square are pooled into one bin.
    frequent = expected >= 10
    observed = np.append(counts[frequent], counts[~frequent].sum())
    wanted = np.append(expected[frequent], expected[~frequent].sum())
    kept = wanted > 0
    statistic = float(((observed - wanted)[kept] ** 2 / wanted[kept]).sum())
    freedom = int(kept.sum()) - 1
    # Five standard deviations of chi-square above its mean; the draws are seeded, so never flaky.
    assert statistic <= freedom + 5 * math.sqrt(2 * freedom) + 1e-9


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.5, 3.0])
def test_top_probability_equals_the_plain_sum(exponent: float) -> None:
    keys = 300_000
    zipf = ZipfKeys(ZipfConfig(keys=keys, exponent=exponent))
    exact = exact_probabilities(keys, exponent)
    for k in (1, 2, 100, 4096, 4097, 15_000, keys - 1):
        assert zipf.top_probability(k) == pytest.approx(math.fsum(exact[:k]), rel=1e-12)
    assert zipf.probabilities(np.arange(keys)) == pytest.approx(exact, rel=1e-12)
    assert zipf.top_probability(0) == 0.0
    assert zipf.top_probability(keys) == zipf.top_probability(keys + 1) == 1.0


def test_draws_of_a_huge_key_set_hit_the_top_as_often_as_they_should() -> None:
    zipf = ZipfKeys(ZipfConfig(keys=100_000_000, seed=2))
    ranks = zipf.ranks(batch=0, rows=400_000)
    for k in (1, 1000, 5_000_000):
        assert np.mean(ranks < k) == pytest.approx(zipf.top_probability(k), abs=0.004)


def test_a_batch_depends_on_seed_and_number_only() -> None:
    config = ZipfConfig(keys=10_000, seed=1)
    in_order = [keys for keys, _ in zip(ZipfKeys(config).batches(rows=100), range(4), strict=False)]
    assert np.array_equal(ZipfKeys(config).keys(batch=3, rows=100), in_order[3])
    assert np.array_equal(next(ZipfKeys(config).batches(rows=100, first=2)), in_order[2])
    assert not np.array_equal(in_order[0], in_order[1])
    other = ZipfKeys(ZipfConfig(keys=10_000, seed=2))
    assert not np.array_equal(other.keys(batch=0, rows=100), in_order[0])
    assert not np.array_equal(other.ranks(batch=0, rows=100), ZipfKeys(config).ranks(batch=0, rows=100))


@pytest.mark.parametrize(
    ("keys", "exponent", "seed", "part"),
    [
        (10, -0.1, 0, "exponent"),
        (10, float("nan"), 0, "exponent"),
        (0, 1.0, 0, "keys"),
        (10, 1.0, -1, "seed"),
    ],
)
def test_bad_configs_are_refused_with_a_hint(keys: int, exponent: float, seed: int, part: str) -> None:
    with pytest.raises(SemistreamError, match=part) as caught:
        ZipfConfig(keys=keys, exponent=exponent, seed=seed)
    assert "hint" in str(caught.value).lower()
