"""Arrival schedules: their means, their burstiness on all time scales, and how they meet the rows."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semistream.errors import ConfigError
from semistream.workloads.arrivals import (
    Arrivals,
    PoissonArrivals,
    SteadyArrivals,
    arrival_times,
    arriving,
    with_arrivals,
)
from semistream.workloads.bursts import BurstyArrivals
from semistream.workloads.registry import make, make_arrivals
from semistream.workloads.synthetic import MasterConfig, MasterRows


def steps(arrivals: Arrivals, count: int) -> np.ndarray:
    return np.concatenate(list(islice(arrivals.counts(), -(-count // 4096))))[:count]


def slope_of_variance(counts: np.ndarray, scales: list[int]) -> float:
    """How the logarithm of the variance of window means falls with that of the window; -1 if independent."""
    variances = [counts[: counts.size // m * m].reshape(-1, m).mean(axis=1).var() for m in scales]
    return float(np.polyfit(np.log(scales), np.log(variances), 1)[0])


def test_bursts_look_alike_on_all_time_scales_and_poisson_does_not() -> None:
    scales = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    bursty = steps(BurstyArrivals(streams=10, seed=5), 400_000)
    poisson = steps(PoissonArrivals(rows_per_step=bursty.mean(), seed=5), 400_000)
    assert slope_of_variance(poisson, scales) == pytest.approx(-1.0, abs=0.1)
    # Hurst's parameter is 1 + slope / 2: above 0.5 is long memory.
    assert slope_of_variance(bursty, scales) > -0.3


def test_beyond_the_longest_stream_nothing_is_remembered() -> None:
    bursty = steps(BurstyArrivals(streams=8, seed=5), 1 << 21)
    assert slope_of_variance(bursty, [2**11, 2**12, 2**13]) == pytest.approx(-1.0, abs=0.3)


def test_bursts_have_the_papers_mean_and_reach_its_extremes() -> None:
    arrivals = BurstyArrivals(streams=6, seed=1)
    counts = steps(arrivals, 400_000)
    assert arrivals.rows_per_step == 63
    assert counts.mean() == pytest.approx(63, rel=0.03)
    assert counts.min() == 0
    assert counts.max() == 2 + 4 + 8 + 16 + 32 + 64
    assert not (counts % 2).any(), "every bandwidth is a power of two, from 2 on"


def test_bursts_begin_as_they_go_on() -> None:
    """Stationary: the first step of many runs has the mean and spread of a late one."""
    runs = np.array([steps(BurstyArrivals(streams=5, seed=seed), 4096) for seed in range(600)])
    assert runs[:, 0].mean() == pytest.approx(31, abs=3)
    assert runs[:, 4000].mean() == pytest.approx(31, abs=3)
    assert runs[:, 0].std() == pytest.approx(runs[:, 4000].std(), rel=0.15)
    # A step later the rate is much the same; after many of the longest periods it has forgotten.
    assert np.corrcoef(runs[:, 0], runs[:, 1])[0, 1] > 0.7
    assert abs(np.corrcoef(runs[:, 0], runs[:, 2000])[0, 1]) < 0.2


def test_the_schedule_of_a_seed_is_one() -> None:
    one, same, other = (steps(BurstyArrivals(seed=seed), 10_000) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("kind", ["steady", "poisson", "bursty"])
@pytest.mark.parametrize("rate", [0.01, 7.3, 5_000.0])
def test_any_schedule_keeps_the_wanted_mean(kind: str, rate: float) -> None:
    arrivals = make_arrivals(kind, rows_per_s=rate / 0.5, step_s=0.5, streams=4)
    assert arrivals.rows_per_step == pytest.approx(rate)
    assert steps(arrivals, 400_000).mean() == pytest.approx(rate, rel=0.05)
    assert steps(arrivals, 400_000).min() >= 0


def test_arrivals_are_paired_with_rows_in_their_order_and_end_with_them() -> None:
    table = MasterRows(MasterConfig(keys=1000, row_bytes=20)).source
    arrivals = BurstyArrivals(streams=5, seed=3)
    counts = steps(arrivals, 4096)
    arrived = list(arriving(table, arrivals))
    keys = np.concatenate([each.rows.column("key").to_numpy() for each in arrived])
    assert np.array_equal(keys, np.arange(1000))
    for each in arrived[:-1]:
        assert each.rows.num_rows == counts[each.step]
    assert 0 < arrived[-1].rows.num_rows <= counts[arrived[-1].step]
    assert [each.step for each in arrived] == [s for s in np.flatnonzero(counts) if s <= arrived[-1].step]


@settings(max_examples=50)
@given(
    cuts=st.lists(st.integers(0, 700), min_size=1, max_size=8),
    rate=st.sampled_from([0.3, 2.0, 50.0, 10_000.0]),
    kind=st.sampled_from(["steady", "poisson", "bursty"]),
)
def test_times_do_not_depend_on_where_batches_were_cut(cuts: list[int], rate: float, kind: str) -> None:
    arrivals = make_arrivals(kind, rows_per_s=rate * 10, step_s=0.1, streams=3)
    stream = make("zipf", keys=10).stream
    batches = iter(
        [next(stream.batches(rows)) if rows else next(stream.batches(1)).slice(1) for rows in cuts]
    )
    timed = list(with_arrivals(batches, arrivals, step_s=0.1))
    found = np.concatenate([batch.column("arrival_s").to_numpy() for batch in timed])
    counts = steps(arrivals, 40_960)
    needed = int(np.searchsorted(np.cumsum(counts), sum(cuts))) + 1
    expected = arrival_times(counts[:needed], step_s=0.1)[: sum(cuts)]
    assert np.allclose(found, expected, rtol=0, atol=1e-9)
    assert (np.diff(found) >= 0).all()
    assert [batch.num_rows for batch in timed] == cuts


def test_times_lie_within_their_step() -> None:
    times = arrival_times(np.array([0, 2, 0, 1]), first_step=10, step_s=2.0)
    assert times.tolist() == [22.5, 23.5, 27.0]
    assert arrival_times(np.array([0, 0])).size == 0


def test_a_step_of_a_billion_rows_is_not_expanded() -> None:
    stream = make("zipf", keys=10).stream
    arrivals = SteadyArrivals(rows_per_step=1e9)
    timed = with_arrivals(islice(stream.batches(1000), 3), arrivals)
    times = pa.Table.from_batches(timed)["arrival_s"].to_numpy()
    assert times[-1] == pytest.approx(2999.5e-9)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", ["steady", "poisson", "bursty"])
def test_bad_rates_are_refused(kind: str, rate: float) -> None:
    with pytest.raises(ConfigError) as refused:
        make_arrivals(kind, rows_per_s=rate)
    assert refused.value.hint


def test_other_bad_schedules_are_refused() -> None:
    for streams in (0, 41):
        with pytest.raises(ConfigError, match="virtual streams"):
            BurstyArrivals(streams=streams)
    with pytest.raises(ConfigError, match="seed"):
        BurstyArrivals(seed=-1)
    with pytest.raises(ConfigError, match="arrivals='often'"):
        make_arrivals("often", rows_per_s=1)
    with pytest.raises(ConfigError, match="time step"):
        next(with_arrivals(iter([]), SteadyArrivals(rows_per_step=1), step_s=0))
