"""Profiles of keys and pages against the sums and draws they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from semistream.cost_model.frequencies import KeyProfile, profile_of_counts, zipf_profile
from semistream.cost_model.pages import page_profile
from semistream.cost_model.profiles import HDD2012
from semistream.cost_model.setting import Setting, Sizes
from semistream.errors import ConfigError
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

KEYS = 20_000


def exact(keys: int, exponent: float) -> np.ndarray:
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return weights / weights.sum()


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.7, 6.0])
def test_the_top_of_a_profile_is_the_sum_of_its_probabilities(exponent: float) -> None:
    profile, p = zipf_profile(KEYS, exponent), exact(KEYS, exponent)
    assert profile.keys == KEYS
    assert profile.mass[-1] == pytest.approx(1.0)
    for keys in (0, 1, 10, 300, 5_000, KEYS):
        assert float(profile.top(keys)) == pytest.approx(p[:keys].sum(), abs=1e-4)
    assert (np.diff(profile.probability) <= 1e-18).all(), "the hottest come first"


def test_a_large_profile_agrees_with_the_closed_sum() -> None:
    profile = zipf_profile(100_000_000, 1.0)
    zipf = ZipfKeys(ZipfConfig(keys=100_000_000, exponent=1.0))
    for keys in (1, 1000, 123_456, 10_000_000):
        assert float(profile.top(keys)) == pytest.approx(zipf.top_probability(keys), rel=1e-4)
    assert profile.counts.size < 1000


def test_how_many_keys_are_hotter() -> None:
    p = exact(KEYS, 1.0)
    profile = zipf_profile(KEYS, 1.0)
    for rank in (3, 40, 700, 9_000):
        assert profile.hotter_than(float(p[rank])) == pytest.approx(rank, abs=1, rel=0.02)
    assert profile.hotter_than(1.0) == 0
    assert profile.hotter_than(0.0) == KEYS
    uniform = zipf_profile(KEYS, 0.0)
    assert (uniform.hotter_than(1.1 / KEYS), uniform.hotter_than(0.9 / KEYS)) == (0, KEYS)


@pytest.mark.parametrize("cached", [0.0, 3.0, 41.5, 5_000.0, float(KEYS)])
def test_without_its_top_a_profile_is_that_of_the_misses(cached: float) -> None:
    rest, p = zipf_profile(KEYS, 0.8).without_top(cached), exact(KEYS, 0.8)
    assert rest.keys == pytest.approx(KEYS)
    assert rest.mass[-1] == pytest.approx(1.0)
    if cached < KEYS:
        whole = int(np.ceil(cached))
        assert rest.probability[0] == pytest.approx(
            p[whole - 1 if cached % 1 else whole] / p[whole:].sum(), rel=0.03
        )


def test_counts_of_a_sample_become_a_profile() -> None:
    profile = profile_of_counts(np.array([1, 5, 1, 3, 0]))
    assert profile.keys == 5
    assert float(profile.top(1)) == 0.5
    assert float(profile.top(2)) == 0.8
    for wrong in ([], [0, 0], [3, -1]):
        with pytest.raises(ConfigError, match="counts"):
            profile_of_counts(np.array(wrong, dtype=np.int64))


def small_setting(
    exponent: float, *, clustered: bool = False, u: float = 0.0, proves: bool = False
) -> Setting:
    return Setting.zipf(
        R_t=KEYS,
        exponent=exponent,
        device=HDD2012,
        u=u,
        sizes=Sizes(v_R=100),
        page_bytes=2000,
        clustered=clustered,
        index_proves_absence=proves,
    )


def drawn_pages(exponent: float, *, clustered: bool, cached: int = 0) -> np.ndarray:
    """The true probability of each page of 20 keys, the keys laid out at random or by rank."""
    p = exact(KEYS, exponent)
    p[:cached] = 0.0
    layout = np.arange(KEYS) if clustered else np.random.default_rng(5).permutation(KEYS)
    return p[layout].reshape(-1, 20).sum(axis=1) / p.sum()


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.3])
@pytest.mark.parametrize("cached", [0, 200])
def test_distinct_pages_of_a_batch(exponent: float, clustered: bool, cached: int) -> None:
    pages = page_profile(small_setting(exponent, clustered=clustered), cached_keys=float(cached))
    q = drawn_pages(exponent, clustered=clustered, cached=cached)
    assert pages.units == pytest.approx(1000, rel=1e-6)
    assert float(pages.counts @ pages.q) == pytest.approx(1.0)
    for rows in (1, 30, 1000, 20_000):
        expected = (1 - (1 - q) ** rows).sum()
        assert pages.distinct(rows) == pytest.approx(expected, rel=0.03), rows


@pytest.mark.parametrize("clustered", [False, True])
def test_stretches_of_neighbouring_pages(clustered: bool) -> None:
    pages = page_profile(small_setting(1.0, clustered=clustered))
    needed = 1 - (1 - drawn_pages(1.0, clustered=clustered)) ** 800
    random = np.random.default_rng(6)
    drawn = random.random((400, needed.size)) < needed
    begins = drawn & ~np.pad(drawn, ((0, 0), (1, 0)))[:, :-1]
    assert pages.stretches(800) == pytest.approx(begins.sum(axis=1).mean(), rel=0.05)


def test_a_page_cache_answers_what_its_pages_are_asked_for() -> None:
    pages = page_profile(small_setting(1.0))
    q = np.sort(drawn_pages(1.0, clustered=False))[::-1]
    for count in (1, 50, 400):
        assert pages.top(count) == pytest.approx(q[:count].sum(), rel=0.06)
        missed = pages.without_top(count)
        assert float(missed.counts @ missed.q) == pytest.approx(1.0)
        assert missed.units == pytest.approx(pages.units - count)


@pytest.mark.parametrize("clustered", [False, True])
def test_cached_pages_part_the_stretches_of_the_others(clustered: bool) -> None:
    cached, rows = 150, 8000
    q = drawn_pages(1.0, clustered=clustered)
    q[np.argsort(-q)[:cached]] = 0.0
    needed = 1 - (1 - q / q.sum()) ** rows
    drawn = np.random.default_rng(7).random((400, needed.size)) < needed
    begins = drawn & ~np.pad(drawn, ((0, 0), (1, 0)))[:, :-1]
    missed = page_profile(small_setting(1.0, clustered=clustered)).without_top(cached)
    assert missed.stretches(rows) == pytest.approx(begins.sum(axis=1).mean(), rel=0.08)


def test_absent_keys_read_a_page_unless_the_index_knows_them() -> None:
    asked, known = small_setting(1.0, u=0.25), small_setting(1.0, u=0.25, proves=True)
    assert page_profile(asked).no_read == 0.0
    pages = page_profile(known)
    assert pages.no_read == 0.25
    assert float(pages.counts @ pages.q) == pytest.approx(0.75)


def test_profiles_need_no_table_as_large_as_the_keys() -> None:
    assert zipf_profile(1 << 40, 0.9).counts.size < 2000
    assert isinstance(zipf_profile(1, 1.0), KeyProfile)
