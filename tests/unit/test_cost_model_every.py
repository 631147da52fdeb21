"""What must hold of every model."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cost_settings import setting

from semistream.cost_model import adaptive, chybridjoin, cmeshjoin, hybridjoin, meshjoin, partitioned, ssij
from semistream.cost_model.models import MODELS
from semistream.cost_model.profiles import HDD2012, NVME, DeviceProfile
from semistream.cost_model.setting import Setting, Sizes
from semistream.errors import BudgetError, ConfigError


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("device", [HDD2012, NVME], ids=lambda device: device.name)
def test_the_rate_rises_with_memory_and_time_is_that_of_the_work(
    name: str, exponent: float, device: DeviceProfile
) -> None:
    where, model = setting(exponent, device=device), MODELS[name]
    rates = []
    for share in (0.01, 0.03, 0.1, 0.4):
        found = model.predict(where, share * where.R_bytes)
        assert found.c_loop_s == pytest.approx(device.seconds(found.work))
        assert found.rows_per_s == pytest.approx(found.rows_per_step / found.c_loop_s)
        assert found.work.rows_in == pytest.approx(found.rows_per_step, rel=1e-6)
        assert found.work.rows_out == pytest.approx(found.rows_per_step * where.output_rows, rel=1e-6)
        assert 0 <= found.hit_ratio <= 1
        assert 0 <= found.cache_share <= 1
        rates.append(found.rows_per_s)
    assert all(later >= earlier * 0.995 for earlier, later in pairwise(rates)), rates


@pytest.mark.parametrize("name", MODELS)
def test_memory_to_rate_to_memory(name: str) -> None:
    where, model = setting(), MODELS[name]
    memory = 0.05 * where.R_bytes
    rate = model.predict(where, memory).rows_per_s
    back = model.memory_for(where, rate * 0.999)
    if name == "inlj":
        assert back == model.minimum_memory(where), "more memory does not help it"
    else:
        assert back == pytest.approx(memory, rel=0.02)


@pytest.mark.parametrize("name", MODELS)
def test_too_little_memory_names_the_minimum(name: str) -> None:
    where, model = setting(), MODELS[name]
    minimum = model.minimum_memory(where)
    assert model.predict(where, minimum * 1.001).rows_per_s > 0
    with pytest.raises(BudgetError, match=f"{name} cannot run.*the minimum is {math.ceil(minimum):,} bytes"):
        model.predict(where, minimum * 0.99)


@pytest.mark.parametrize("name", MODELS)
def test_no_memory_makes_a_join_faster_than_its_processor(name: str) -> None:
    assert MODELS[name].memory_for(setting(), 1e9) == math.inf
    for wrong in (0.0, -5.0, math.nan):
        with pytest.raises(ConfigError, match="rows/s"):
            MODELS[name].memory_for(setting(), wrong)


@pytest.mark.parametrize("name", MODELS)
def test_small_and_many_to_many_tables(name: str) -> None:
    for where in (
        setting(rows=1, page_bytes=128),
        setting(0.5, rows=50_000, m=4.0, u=0.3),
        setting(0.5, rows=50_000, m=500.0),
        setting(rows=50_000, clustered=True, u=0.3, index_proves_absence=True),
    ):
        found = MODELS[name].predict(where, MODELS[name].minimum_memory(where) * 2)
        assert 0 < found.rows_per_s < 1e9
        assert found.work.rows_out == pytest.approx(found.rows_per_step * where.output_rows, rel=1e-6)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"exponent": -0.5}, "skew must lie between 0"),
        ({"exponent": math.nan}, "skew must lie between 0"),
        ({"rows": 0}, "0 rows"),
        ({"u": 1.0}, "without a match"),
        ({"u": -0.1}, "without a match"),
        ({"m": 0.5}, "rows per key"),
        ({"m": 3e6}, "rows per key"),
        ({"page_bytes": 0}, "page cannot have 0"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        setting(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"v_S": 0}, {"v_R": -1}, {"f": 0.5}, {"v_P": -4}])
def test_impossible_sizes_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Sizes(**wrong)


def test_with_the_default_sizes_the_printed_equations_hold() -> None:
    """003 eq 1 has a fudge factor without a value; 001 eq 1 and 004 eq 3 have none."""
    where = setting()
    assert where.hybrid_row_bytes == 20 + 12
    assert where.cached_key_bytes == 120 + 8
    assert where.mesh_row_bytes == 4 + 20


@pytest.mark.parametrize("f", [1.2, 1.5, 3.0])
def test_a_fudge_factor_multiplies_what_waits_and_what_is_cached(f: float) -> None:
    tables = {"v_P": 0.0, "v_Q": 0.0, "recorder": 0.0}
    one, more = (setting(sizes=Sizes(f=each, **tables)) for each in (1.0, f))
    assert more.hybrid_row_bytes == pytest.approx(f * one.hybrid_row_bytes)
    assert more.mesh_row_bytes == pytest.approx(f * one.mesh_row_bytes)
    assert more.cached_key_bytes == pytest.approx(f * one.cached_key_bytes)


@st.composite
def any_setting(draw: st.DrawFn) -> Setting:
    rows = draw(st.sampled_from([1, 2, 77, 10_000, 3_000_000, 10**9]))
    return Setting.zipf(
        R_t=rows,
        exponent=draw(st.sampled_from([0.0, 0.3, 1.0, 2.5, 15.0])),
        device=draw(st.sampled_from([HDD2012, NVME])),
        m=min(rows, draw(st.sampled_from([1.0, 3.5, 400.0]))),
        u=draw(st.sampled_from([0.0, 0.2, 0.95])),
        page_bytes=draw(st.sampled_from([512, 8192, 1 << 20])),
        clustered=draw(st.booleans()),
        index_proves_absence=draw(st.booleans()),
        sizes=Sizes(v_S=draw(st.floats(1, 500)), v_R=draw(st.floats(1, 500)), f=draw(st.floats(1, 3))),
    )


@settings(max_examples=30)
@given(where=any_setting(), times=st.sampled_from([1.0, 2.0, 300.0, 1e5]))
def test_any_setting_has_an_answer(where: Setting, times: float) -> None:
    for name, model in MODELS.items():
        found = model.predict(where, model.minimum_memory(where) * times)
        assert 0 < found.rows_per_s < 1e12, name
        assert math.isfinite(found.c_loop_s), name
        assert 0 <= found.cache_share <= 1.0001, name
        assert 0 <= found.hit_ratio <= 1.0001, name
        assert found.waiting_rows >= 0, name


def test_what_a_run_really_held_can_be_given_instead_of_what_would_fit() -> None:
    """For predictions beside measurements: a composition's own rooms and caches, whatever it charges for them."""
    where, memory = setting(), 20e6
    given = (
        meshjoin.predict(where, memory, b=5_000.0, w=100.0),
        cmeshjoin.predict(where, memory, h=2_000.0, b=5_000.0, w_S=100.0),
        hybridjoin.predict(where, memory, unit_bytes=65536.0, H_t=40_000.0),
        chybridjoin.predict(where, memory, h=2_000.0, unit_bytes=65536.0, H_t=40_000.0),
        ssij.predict(where, memory, cached_pages=50.0, B=40_000.0),
        adaptive.predict(where, memory, h=2_000.0, H=40_000.0),
        partitioned.predict(where, memory, V=65536.0, cached_pages=50.0, H=40_000.0),
    )
    assert [found.waiting_rows for found in given] == pytest.approx([40_000.0] * 7)
    assert given[0].rows_per_step == 100.0
    assert [given[i].cache_rows for i in (1, 3, 5)] == [2_000.0] * 3
