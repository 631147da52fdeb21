"""MESHJOIN, R-MESHJOIN and SSBJ against simulations, grids and the printed equations."""

# The papers' symbols keep their case.
# ruff: noqa: N806

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cost_settings import MIB, ROWS, setting

from semistream.cost_model import meshjoin, rmeshjoin, ssbj
from semistream.cost_model.profiles import HDD2012
from semistream.cost_model.setting import Sizes


def test_meshjoin_is_the_papers_arithmetic() -> None:
    where = setting(0.0, sizes=Sizes(f=1.5))
    b, w = 5_000.0, 300.0
    assert meshjoin.memory(where, b=b, w=w) == b * 120 + w * ROWS / b * (4 + 1.5 * 20)
    assert meshjoin.stream_rows(where, meshjoin.memory(where, b=b, w=w), b=b) == pytest.approx(w)
    d = HDD2012
    read = d.positioning_s * b / ROWS + d.request_s + b * 120 / d.sequential_bytes_per_s
    rows = w * (d.c_E + d.c_S + d.c_A + d.c_O)
    assert meshjoin.c_loop(where, b=b, w=w) == pytest.approx(read + b * d.c_H + rows + d.c_step)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.9])
@pytest.mark.parametrize("seek", [False, True])
def test_the_best_disk_buffer_of_meshjoin_is_the_one_maximum(share: float, seek: bool) -> None:
    where = replace(setting(), seek_each_segment=seek)
    M = share * where.R_bytes
    best = meshjoin.best_disk_buffer(where, M)
    low, high = meshjoin._feasible(where, M)
    grid = np.geomspace(low * 1.001, min(high, M / 120) * 0.999, 300)
    rates = np.array([meshjoin.predict(where, M, b=b).rows_per_s for b in grid])
    assert meshjoin.predict(where, M).rows_per_s >= rates.max() * (1 - 1e-9)
    rising = np.diff(rates) > 0
    assert not (rising[1:] & ~rising[:-1]).any(), "once it falls it does not rise again"
    assert low <= best <= high


def test_meshjoins_memory_for_a_rate_is_the_least() -> None:
    where = setting()
    rate = 40_000.0
    least = meshjoin.memory_for(where, rate)
    assert meshjoin.predict(where, least).rows_per_s == pytest.approx(rate, rel=1e-6)
    for b in np.geomspace(100, ROWS, 40):
        cycle = meshjoin.c_loop(where, b=b, w=0.0)
        w = rate * cycle / (1 - rate * HDD2012.seconds(meshjoin.row_work(where)))
        assert meshjoin.memory(where, b=b, w=w) >= least * (1 - 1e-9)


def test_meshjoin_does_not_care_about_skew() -> None:
    assert (
        meshjoin.predict(setting(0.0), 20 * MIB).rows_per_s
        == meshjoin.predict(setting(1.2), 20 * MIB).rows_per_s
    )


def test_rmeshjoin_with_one_segment_a_chunk_is_meshjoin() -> None:
    where = setting()
    mesh, other = meshjoin.predict(where, 20 * MIB), rmeshjoin.predict(where, 20 * MIB)
    assert other.rows_per_s == pytest.approx(mesh.rows_per_s)
    coarse = rmeshjoin.predict(where, 20 * MIB, b=1000.0, j=7.0)
    assert coarse.rows_per_s <= meshjoin.predict(where, 20 * MIB, b=1000.0).rows_per_s


def test_the_cache_inequality_minimises_memory() -> None:
    """003 theorem 1, by trying every other number of cached keys."""
    where = setting(rows=20_000, m=2.0)
    rate, T = 5_000.0, 4.0
    found = ssbj.balance(where, rate=rate, T=T)
    keys = np.arange(0, 10_001, 5)
    waiting = rate * T * (1 - where.keys.top(keys)) * where.sizes.v_S
    total = keys * 2 * where.sizes.v_R + waiting
    assert found.h_keys == pytest.approx(keys[total.argmin()], rel=0.05, abs=10)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0])
def test_ssbjs_cycle_is_a_fixed_point(exponent: float) -> None:
    where = setting(exponent)
    rate, b = 20_000.0, 5_000.0
    found = ssbj.fixed_point(where, rate=rate, b=b)
    busy = rate * (found.p * ssbj.hit_seconds(where) + (1 - found.p) * ssbj.miss_seconds(where))
    cycle = ROWS / b * HDD2012.seconds(meshjoin.segment_work(where, b=b)) / (1 - busy)
    assert pytest.approx(cycle, rel=1e-6) == found.T


def test_ssbj_needs_less_memory_than_meshjoin_and_finally_the_whole_of_r() -> None:
    where = setting(u=0.2)
    most = ssbj.rate_max(where)
    for share in (0.01, 0.1, 0.5, 0.9, 0.999):
        rate = share * most
        assert ssbj.memory_for(where, rate) <= meshjoin.memory_for(where, rate) * 1.05
    # Theorem 3: beyond lambda_max MESHJOIN takes more than mm, SSBJ never, but for the disk buffer.
    fast = 0.99999 * most
    mm = ssbj.main_memory(where)
    assert meshjoin.memory_for(where, fast) > mm
    b = ROWS / 100
    assert ssbj.memory_at(where, rate=fast, b=b) <= mm + b * where.sizes.v_R * 1.0001
    assert ssbj.fixed_point(where, rate=fast, b=b).p == pytest.approx(1.0, abs=1e-3)


def test_ssbj_caches_absent_keys_for_their_entry() -> None:
    where = setting(0.6, u=0.4)
    found = ssbj.balance(where, rate=20_000.0, T=20.0)
    assert found.absent_keys / 0.4 > found.h_keys / 0.6, "an entry without rows is cheaper"


def test_ssbjs_printed_equations() -> None:
    where, b, w_N, w_S = setting(), 4_000.0, 700.0, 300.0
    d = HDD2012
    assert ssbj.memory(where, b=b, h_R=50.0, w_S=w_S) == (b + 50) * 120 + w_S * ROWS / b * 24
    fixed = d.seconds(meshjoin.segment_work(where, b=b)) + b * d.c_B
    rows = w_N * (d.c_S + d.c_H + d.c_O) + w_S * (d.c_E + d.c_S + d.c_A + d.c_O)
    assert ssbj.c_loop_printed(where, b=b, w_N=w_N, w_S=w_S) == pytest.approx(fixed + rows)


def test_ssbj_with_a_given_disk_buffer_is_no_better_than_with_the_best() -> None:
    where, M = setting(), 0.05 * ROWS * 120
    best = ssbj.predict(where, M).rows_per_s
    for b in (500.0, 5_000.0, 40_000.0):
        given = ssbj.predict(where, M, b=b)
        assert given.rows_per_s <= best * 1.002
        assert given.disk_buffer_bytes == b * 120
