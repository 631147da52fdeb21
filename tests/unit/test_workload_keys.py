"""Which keys a stream asks for: drift, temporal locality, absent keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semistream.errors import ConfigError
from semistream.workloads.contracts import BLOCK_ROWS, KeyReader
from semistream.workloads.drift import DriftConfig, DriftKeys
from semistream.workloads.locality import LocalityConfig, LocalityKeys
from semistream.workloads.many_to_many import AbsentKeys
from semistream.workloads.zipf import ZipfConfig, ZipfKeys


def hottest(keys: np.ndarray, count: int) -> list[int]:
    return np.argsort(-np.bincount(keys), kind="stable")[:count].tolist()


# -- drift ---------------------------------------------------------------------------------------------


def drift(pace: str, **changes: object) -> DriftKeys:
    zipf = ZipfConfig(keys=10_000, exponent=1.0, seed=4)
    options = {"zipf": zipf, "period": 100_000, "moved": 500, "pace": pace} | changes
    return DriftKeys(DriftConfig(**options))  # type: ignore[arg-type]


def test_a_sudden_drift_changes_the_hot_set_at_a_periods_end_and_only_there() -> None:
    reader = KeyReader(drift("sudden"))
    before, after = reader.read(0, 100_000), reader.read(100_000, 100_000)
    assert hottest(before[:50_000], 1) == hottest(before[50_000:], 1)
    assert len(set(hottest(before[:50_000], 20)) & set(hottest(before[50_000:], 20))) >= 15
    assert not set(hottest(before, 100)) & set(hottest(after, 100))


def test_a_gradual_drift_moves_by_as_many_keys_in_a_period() -> None:
    keys = drift("gradual")
    shift = keys.shift(np.arange(0, 300_001, dtype=np.int64))
    assert np.array_equal(shift[[0, 100_000, 200_000, 300_000]], [0, 500, 1000, 1500])
    assert set(np.unique(np.diff(shift)).tolist()) == {0, 1}
    reader = KeyReader(keys)
    start, near, far = reader.read(0, 2_000), reader.read(2_000, 2_000), reader.read(100_000, 2_000)
    # What is hot falls by a rank every 200 rows: it still is hot soon after, and no more a period later.
    assert len(set(hottest(start, 50)) & set(hottest(near, 50))) > 10
    assert len(set(hottest(start, 50)) & set(hottest(far, 50))) < 10


@pytest.mark.parametrize("pace", ["gradual", "sudden"])
def test_at_every_moment_the_keys_are_distributed_by_zipf(pace: str) -> None:
    keys = drift(pace, period=1_000)
    zipf = ZipfKeys(keys.config.zipf)
    ranks, numbers = [], np.arange(8 * BLOCK_ROWS, dtype=np.int64)
    for batch in range(8):
        ranks.append(zipf.ranks_of(keys.keys(batch=batch, rows=BLOCK_ROWS)))
    undone = (np.concatenate(ranks) + keys.shift(numbers)) % 10_000
    for top in (1, 10, 100, 1_000):
        assert np.mean(undone < top) == pytest.approx(zipf.top_probability(top), abs=0.01)


@given(
    keys=st.integers(1, 2**40),
    period=st.integers(1, 2**40),
    first=st.integers(0, 2**50),
    share=st.floats(0, 1),
    pace=st.sampled_from(["gradual", "sudden"]),
)
def test_the_shift_never_goes_back_or_beyond_a_period(
    keys: int, period: int, first: int, share: float, pace: str
) -> None:
    moved = max(1, int(keys * share))
    config = DriftConfig(zipf=ZipfConfig(keys=keys), period=period, moved=moved, pace=pace)  # type: ignore[arg-type]
    rows = np.array([first, first + 1], dtype=np.int64)
    shift = DriftKeys(config).shift(rows)
    assert ((shift >= 0) & (shift < keys)).all()
    assert int(shift[1] - shift[0]) % keys <= moved


@pytest.mark.parametrize("bad", [{"period": 0}, {"moved": 0}, {"moved": 10_001}, {"pace": "slow"}])
def test_bad_drift_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as refused:
        drift(**({"pace": "sudden"} | bad))  # type: ignore[arg-type]
    assert refused.value.hint


# -- temporal locality ---------------------------------------------------------------------------------


def test_each_interval_is_a_zipf_distribution_over_its_own_part() -> None:
    config = LocalityConfig(zipf=ZipfConfig(keys=10_000, exponent=1.0), intervals=25, interval_rows=20_000)
    keys = LocalityKeys(config)
    reader = KeyReader(keys)
    for interval in (0, 1, 24):
        drawn = reader.read(interval * 20_000, 20_000)
        assert keys.bounds(interval) == (400 * interval, 400 * interval + 400)
        assert drawn.min() >= 400 * interval
        assert drawn.max() < 400 * (interval + 1)
        shares = np.sort(np.bincount(drawn - 400 * interval, minlength=400))[::-1] / 20_000
        exact = ZipfKeys(ZipfConfig(keys=400, exponent=1.0)).probabilities(np.arange(400))
        assert shares[0] == pytest.approx(exact[0], abs=0.01)
        assert shares[:40].sum() == pytest.approx(exact[:40].sum(), abs=0.02)


def test_after_the_last_interval_the_first_comes_again_with_other_draws() -> None:
    config = LocalityConfig(zipf=ZipfConfig(keys=100, exponent=0.5), intervals=4, interval_rows=300)
    reader = KeyReader(LocalityKeys(config))
    first, again = reader.read(0, 300), reader.read(1200, 300)
    assert again.max() < 25
    assert not np.array_equal(first, again)


def test_which_keys_are_hot_differs_from_part_to_part() -> None:
    config = LocalityConfig(zipf=ZipfConfig(keys=100_000, exponent=1.0), intervals=10, interval_rows=10_000)
    reader = KeyReader(LocalityKeys(config))
    hot = {hottest(reader.read(i * 10_000, 10_000) - i * 10_000, 1)[0] for i in range(10)}
    assert len(hot) == 10


@settings(max_examples=40)
@given(
    keys=st.integers(1, 200),
    intervals=st.integers(1, 200),
    interval_rows=st.integers(1, 20_000),
    batch=st.integers(0, 5),
)
def test_every_row_is_in_the_part_of_its_interval(
    keys: int, intervals: int, interval_rows: int, batch: int
) -> None:
    intervals = min(keys, intervals)
    config = LocalityConfig(zipf=ZipfConfig(keys=keys), intervals=intervals, interval_rows=interval_rows)
    rows = 500
    source = LocalityKeys(config)
    drawn = source.keys(batch=batch, rows=rows)
    interval = (np.arange(batch * rows, (batch + 1) * rows) // interval_rows) % intervals
    assert (drawn >= keys * interval // intervals).all()
    assert (drawn < keys * (interval + 1) // intervals).all()
    assert np.array_equal(drawn, LocalityKeys(config).keys(batch=batch, rows=rows))


@pytest.mark.parametrize("bad", [{"intervals": 0}, {"intervals": 101}, {"interval_rows": 0}])
def test_bad_locality_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError) as refused:
        LocalityConfig(zipf=ZipfConfig(keys=100), **bad)
    assert refused.value.hint


# -- absent keys ---------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(share=st.floats(0, 1), seed=st.integers(0, 2**40), batches=st.integers(1, 6))
def test_the_share_of_absent_keys_is_exact(share: float, seed: int, batches: int) -> None:
    source = AbsentKeys(present=ZipfKeys(ZipfConfig(keys=77, seed=seed)), share=share, seed=seed)
    keys = np.concatenate([source.keys(batch=batch, rows=1000) for batch in range(batches)])
    assert abs(int((keys % 2).sum()) - share * keys.size) <= 1
    present = source.present
    assert np.array_equal(
        keys // 2, np.concatenate([present.keys(batch=b, rows=1000) for b in range(batches)])
    )


def test_absent_keys_come_at_any_place_and_are_as_skewed() -> None:
    source = AbsentKeys(present=ZipfKeys(ZipfConfig(keys=1000, exponent=1.0)), share=0.3)
    keys = np.concatenate([source.keys(batch=batch, rows=10_000) for batch in range(10)])
    absent = keys % 2 == 1
    assert absent[:5000].mean() == pytest.approx(0.3, abs=0.03)
    hot = np.bincount(keys // 2).argmax()
    assert absent[keys // 2 == hot].mean() == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_bad_share_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="share"):
        AbsentKeys(present=ZipfKeys(ZipfConfig(keys=10)), share=share)
