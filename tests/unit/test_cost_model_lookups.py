"""HYBRIDJOIN and the front stage against simulations, grids and the printed equations."""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from tests.cost_settings import MIB, ROWS, setting

from semistream.cost_model import chybridjoin, cinlj, cmeshjoin, hybridjoin, inlj, meshjoin
from semistream.cost_model.pages import page_profile
from semistream.cost_model.setting import Sizes


def simulated_hybridjoin(q_of_key: np.ndarray, page_of_key: np.ndarray, H_t: int, loads: int) -> float:
    """Rows per page read, played through: the oldest row's page takes all rows that wait for it."""
    random = np.random.default_rng(9)
    drawn = page_of_key[random.choice(q_of_key.size, size=loads * 60, p=q_of_key)]
    waiting: dict[int, int] = {}
    queue: deque[tuple[int, int]] = deque()
    loaded_at: dict[int, int] = {}
    at = free = done = counted = 0
    free = H_t
    for load in range(loads):
        for _ in range(free):
            page = int(drawn[at])
            queue.append((at, page))
            waiting[page] = waiting.get(page, 0) + 1
            at += 1
        while True:
            entered, page = queue.popleft()
            if entered >= loaded_at.get(page, 0):
                break
        free = waiting.pop(page)
        loaded_at[page] = at
        if load > loads // 3:
            done += free
            counted += 1
    return done / counted


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("H_t", [50, 1000])
def test_rows_matched_by_a_page_of_hybridjoin(exponent: float, clustered: bool, H_t: int) -> None:
    keys, per_page = 4000, 20
    where = setting(exponent, rows=keys, sizes=Sizes(v_R=100), page_bytes=100 * per_page, clustered=clustered)
    p = np.arange(1, keys + 1) ** -exponent
    layout = np.arange(keys) if clustered else np.random.default_rng(4).permutation(keys)
    page_of_key = np.empty(keys, dtype=np.int64)
    page_of_key[layout] = np.arange(keys) // per_page
    found = simulated_hybridjoin(p / p.sum(), page_of_key, H_t, loads=3000)
    predicted = hybridjoin.steady_state(page_profile(where), H_t).w
    # Where one page takes a third of the stream, rows leave in lumps, and the age of the oldest row is no constant.
    assert predicted == pytest.approx(found, rel=0.1 if clustered and exponent == 1.0 else 0.05)


def test_hybridjoin_between_one_row_a_page_and_twice_the_queue_a_cycle() -> None:
    where = setting(0.0, rows=100_000)
    pages = page_profile(where)
    assert hybridjoin.steady_state(pages, 1.0).w == pytest.approx(1.0, rel=0.01)
    many = hybridjoin.steady_state(pages, 1e6)
    assert many.w == pytest.approx(2e6 / pages.units, rel=0.01), "uniform and full: rows wait half a cycle"
    assert pytest.approx(2e6, rel=0.01) == many.A


def test_the_fitted_constant_of_hybridjoin_is_near_the_general_form_in_the_papers_setting() -> None:
    where = setting(1.0, sizes=Sizes(fence=0.0), clustered=True)
    M, unit = 50e6, 60 * 8192.0
    H_t = hybridjoin.waiting_rows(where, M, unit_bytes=unit)
    general = hybridjoin.steady_state(page_profile(where, unit_bytes=unit), H_t).w
    fitted = hybridjoin.w_fitted(where, H_t=H_t, D_t=unit / 120)
    assert 0.5 < general / fitted < 2.5


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_the_disk_buffer_of_hybridjoin_has_one_maximum(exponent: float) -> None:
    where = setting(exponent)
    M = 50e6
    grid = 8192 * np.unique(np.geomspace(1, M / 8192 * 0.9, 60).astype(int))
    rates = np.array([hybridjoin.predict(where, M, unit_bytes=float(unit)).rows_per_s for unit in grid])
    assert hybridjoin.predict(where, M).rows_per_s >= rates.max() * 0.998
    rising = np.diff(rates) > 0
    assert not (rising[1:] & ~rising[:-1]).any()
    assert 0 < int(rates.argmax()) < len(rates) - 1


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.3])
@pytest.mark.parametrize("share", [0.01, 0.1])
def test_the_best_cache_of_cmeshjoin_beats_a_grid(exponent: float, share: float) -> None:
    where = setting(exponent)
    M = share * where.R_bytes
    best = cmeshjoin.predict(where, M)
    room = M - meshjoin.minimum_memory(where)
    for h in np.geomspace(1, room / where.cached_key_bytes, 80):
        assert cmeshjoin.predict(where, M, h=h).rows_per_s <= best.rows_per_s * 1.001


def test_cmeshjoins_optimum_is_the_root_of_the_corrected_derivative() -> None:
    where = setting()
    M = 0.1 * where.R_bytes
    best = cmeshjoin.best_h_R_of_eq_4(where, M)
    rates = {h: cmeshjoin.mu_cm(where, M, h_R=h) for h in np.geomspace(1, M / 128 * 0.99, 200)}
    assert cmeshjoin.mu_cm(where, M, h_R=best) >= max(rates.values()) * (1 - 1e-3)
    assert abs(cmeshjoin.dmu_cm(where, M, h_R=best)) < 1e-3 * cmeshjoin.dmu_cm(where, M, h_R=1.0)
    printed = [cmeshjoin.dmu_cm_printed(where, M, h_R=h) for h in rates]
    assert min(printed) > 0, "eq 6 as printed has no root"


def test_the_gain_of_a_cache_is_bounded_by_equation_4() -> None:
    where = setting()
    for share in (0.01, 0.1):
        M = share * where.R_bytes
        gain = cmeshjoin.predict(where, M).rows_per_s / meshjoin.predict(where, M).rows_per_s
        h_R = cmeshjoin.best_h_R_of_eq_4(where, M)
        bound = cmeshjoin.mu_cm(where, M, h_R=h_R) / cmeshjoin.mu_dp(where, M, h_R=0.0)
        assert 1 < gain <= bound * 1.01


def test_equation_1_is_the_harmonic_sum() -> None:
    expected = sum(1 / x for x in range(1, 51)) / sum(1 / x for x in range(1, 1001))
    assert cmeshjoin.harmonic_share(50, 1000) == pytest.approx(expected)
    assert cmeshjoin.p_N(setting(rows=1000), 50) == pytest.approx(expected, rel=1e-3)


def test_without_skew_a_cache_costs_a_little_and_gains_nothing() -> None:
    where, M = setting(0.0), 20 * MIB
    for plain, with_cache in ((meshjoin, cmeshjoin), (hybridjoin, chybridjoin)):
        ratio = with_cache.predict(where, M).rows_per_s / plain.predict(where, M).rows_per_s
        assert 0.9 < ratio <= 1.001


def test_chybridjoins_settings_beat_a_grid() -> None:
    where, M = setting(), 0.05 * ROWS * 120
    best = chybridjoin.predict(where, M).rows_per_s
    for h in np.geomspace(1, 0.9 * M / 128, 12):
        for unit in 8192 * np.geomspace(1, 200, 12).astype(int):
            if h * 128 + unit < 0.95 * M:
                assert chybridjoin.predict(where, M, h=h, unit_bytes=float(unit)).rows_per_s <= best * 1.005


def test_a_cache_helps_hybridjoin_less_than_meshjoin() -> None:
    where, M = setting(clustered=True), 0.1 * ROWS * 120
    mesh = cmeshjoin.predict(where, M).rows_per_s / meshjoin.predict(where, M).rows_per_s
    hybrid = chybridjoin.predict(where, M).rows_per_s / hybridjoin.predict(where, M).rows_per_s
    assert 1 < hybrid < mesh


def test_cinlj_saves_the_reads_of_its_hits() -> None:
    where, M = setting(), 0.1 * ROWS * 120
    found = cinlj.predict(where, M)
    alone = inlj.predict(where, M)
    assert found.rows_per_s / alone.rows_per_s == pytest.approx(1 / (1 - found.hit_ratio), rel=0.02)
