"""The parts of an experiment: variants, measures, lengths, bounds, schedules of memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from semistream.cost_model.pages import PageProfile
from semistream.cost_model.profiles import HDD2012, NVME
from semistream.errors import ConfigError
from semistream.experiments.bound import clairvoyant, loads_per_row
from semistream.experiments.figure import Series, Sweep
from semistream.experiments.grids import sizes
from semistream.experiments.keys import TpchOrderKeys, WeatherKeys
from semistream.experiments.kinds.memory_for_rate import memory_for
from semistream.experiments.kinds.page_use import CountingTable
from semistream.experiments.lengths import Patience, length_for
from semistream.experiments.measures import MEASURES
from semistream.experiments.scenario import Scenario
from semistream.experiments.tasks import join_task, key_of
from semistream.experiments.variant import Variant, composed
from semistream.front_stage.registry import FRONT_STAGES
from semistream.joins import ALGORITHMS

SCENARIO = Scenario(table_rows=50_000, memory_share=0.2)
SHORT = Patience(seen=1.0, exchanges=0.5, rows_min=500, cycles=3, steps_max=200, intervals=2)


def run(scenario: Scenario, variant: Variant) -> dict[str, Any]:
    return join_task(scenario, variant, length_for(scenario, variant, SHORT), device="hdd2012").perform()


def test_a_variant_is_known_only_while_it_runs() -> None:
    before = (dict(ALGORITHMS), dict(FRONT_STAGES))
    variant = Variant(algorithm="cmeshjoin", threshold=3)
    with composed(variant) as name:
        assert ALGORITHMS[name].front_stage == name
        assert name in FRONT_STAGES
    with pytest.raises(RuntimeError), composed(variant):
        raise RuntimeError("while it runs")
    assert before == (ALGORITHMS, FRONT_STAGES)


def test_variants_change_what_they_say() -> None:
    none = run(SCENARIO, Variant(algorithm="cmeshjoin", front_share=0.0))
    much = run(SCENARIO, Variant(algorithm="cmeshjoin", front_share=0.5))
    assert none["front_stage_keys"] == 0 < much["front_stage_keys"]
    plain = run(SCENARIO, Variant(algorithm="meshjoin"))
    assert none["intervals"] == plain["intervals"]
    wide = run(SCENARIO, Variant(algorithm="meshjoin", buffer_pages=32))
    assert _requests_per_byte(wide) < _requests_per_byte(plain)


def _requests_per_byte(result: dict[str, Any]) -> float:
    counters = [each["counters"] for each in result["intervals"]]
    return sum(each["read_requests"] for each in counters) / sum(each["bytes_read"] for each in counters)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"algorithm": "hybridjoin", "threshold": 2}, "no threshold"),
        ({"algorithm": "cmeshjoin", "switching_factor": 2.0}, "ssbj"),
        ({"algorithm": "magic"}, "magic"),
    ],
)
def test_variants_that_cannot_be(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Variant(**changes)


def test_the_same_run_is_the_same_task_however_memory_is_said() -> None:
    length = length_for(SCENARIO, Variant(algorithm="meshjoin"), SHORT)
    fixed = replace(SCENARIO, memory_share=0.7, memory_fixed_bytes=SCENARIO.memory_bytes)
    names = {
        key_of(join_task(scenario, Variant(algorithm="meshjoin"), length, device=device))
        for scenario in (SCENARIO, fixed)
        for device in ("hdd2012", "nvme")
    }
    assert len(names) == 1
    ours = {
        key_of(join_task(SCENARIO, Variant(algorithm="adaptive"), length, device=device))
        for device in ("hdd2012", "nvme")
    }
    assert len(ours) == 2, "it decides by the device"


def test_measures_charge_the_counters_to_a_device() -> None:
    result = run(SCENARIO, Variant(algorithm="cmeshjoin"))
    rate, cost = MEASURES["service rate"], MEASURES["cost"]
    for device in ("hdd2012", "nvme"):
        found = rate.of(result, device)
        assert found is not None
        priced = cost.of(result, device)
        assert priced is not None
        assert priced.value == pytest.approx(1e6 / found.value)
        assert found.plus_minus is not None
    parts = [
        MEASURES[f"rate through the {part}"].of(result, "nvme") for part in ("front stage", "disk phase")
    ]
    whole = rate.of(result, "nvme")
    assert whole is not None
    assert sum(part.value for part in parts if part) == pytest.approx(whole.value, rel=0.25)
    assert rate.of({"left_out": "too little memory"}, "nvme") is None


def test_a_single_interval_has_no_confidence_interval() -> None:
    result = run(SCENARIO, Variant(algorithm="meshjoin"))
    one = {"intervals": result["intervals"][:1]}
    found = MEASURES["service rate"].of(one, "hdd2012")
    assert found is not None
    assert found.plus_minus is None


def test_memory_for_a_rate_lies_between_the_memories_that_were_tried() -> None:
    rates = [(100.0, 10.0), (400.0, 40.0), (200.0, 20.0)]
    assert memory_for(rates, 20.0) == pytest.approx(200.0)
    assert memory_for(rates, 30.0) == pytest.approx(300.0, rel=0.03)
    assert memory_for(rates, 5.0) is None
    assert memory_for(rates, 50.0) is None
    assert memory_for([], 50.0) is None


@pytest.mark.parametrize("waiting", [0.0, 10.0, 1e4, 1e7])
def test_pages_are_never_read_less_often_than_this(waiting: float) -> None:
    """Of all patiences that hold as many rows, those of the closed form read the fewest pages: none of many others
    reads fewer."""
    random = np.random.default_rng(7)
    q = np.sort(random.pareto(1.0, 300) + 0.01)[::-1]
    pages = PageProfile(np.full(q.size, 4.0), q / (4.0 * q.sum()), 8192.0, 0.0, False)
    best = loads_per_row(pages, waiting)
    q = pages.q
    for _ in range(50):
        shape = random.uniform(-0.5, 1.5)
        low, high = 1e-12, 1e15
        for _ in range(200):
            scale = math.sqrt(low * high)
            qa = scale * q**shape
            held = float(pages.counts @ (qa * (1 + qa / 2) / (1 + qa)))
            low, high = (scale, high) if held < waiting else (low, scale)
        assert best <= float(pages.counts @ (q / (1 + low * q**shape))) * (1 + 1e-6)


def test_the_clairvoyants_cache_is_the_hottest_rows() -> None:
    scenario = Scenario(table_rows=1_000_000, memory_share=0.05, skew=1.0)
    found = clairvoyant(scenario, HDD2012)
    assert found.hit_ratio == pytest.approx(float(scenario.profile.top(50_000)), rel=1e-6)
    assert clairvoyant(scenario, NVME).rows_per_s > found.rows_per_s
    more = clairvoyant(replace(scenario, memory_share=0.10), HDD2012)
    assert more.rows_per_s > found.rows_per_s


def test_tpch_orders_skip_every_third_customer() -> None:
    keys = TpchOrderKeys(customers=1000).keys(batch=0, rows=20_000)
    assert set((keys + 1) % 3) == {1, 2}
    assert keys.max() <= 999
    assert np.unique(keys).size == TpchOrderKeys(customers=1000).ordering
    scenario = Scenario(table_rows=1000, keys="tpch")
    assert float(scenario.profile.top(667)) == pytest.approx(1.0, abs=1e-3)


def test_absent_keys_are_in_the_profile() -> None:
    """By how often keys were really drawn."""
    scenario = Scenario(table_rows=2_000, rows_per_key=2, absent=0.37)
    drawn = scenario.key_source.keys(batch=0, rows=400_000)
    counts = np.sort(np.bincount(drawn, minlength=2_000))[::-1] / drawn.size
    for keys in (1, 10, 100, 1_000):
        assert float(scenario.profile.top(keys)) == pytest.approx(counts[:keys].sum(), abs=0.01)
    assert scenario.profile.keys == 2_000


def test_weather_reports_keep_to_their_domain() -> None:
    keys = WeatherKeys(longitudes=36).keys(batch=1, rows=5_000)
    assert (keys.min(), keys.max()) >= (0, 30)
    assert keys.max() < 36
    assert (keys == WeatherKeys(longitudes=36).keys(batch=1, rows=5_000)).all()


def test_a_counting_table_counts_reads_and_changes_nothing() -> None:
    table = CountingTable(SCENARIO.table.config)
    shard, other = table.open_shard(0), SCENARIO.table.open_shard(0)
    shard.fetch(np.array([3, 4]))
    shard.fetch(np.array([3]))
    assert table.reads[[2, 3, 4]].tolist() == [0, 2, 1]
    assert shard.info == other.info


def test_sizes_keep_the_papers_unit_and_scale_what_counts() -> None:
    made = sizes(
        Scenario(table_rows=100_000_000, memory_fixed_bytes=1_200_000_000),
        "table_rows", (20_000_000, 100_000_000), tiny=(100_000_000,), to_x=1e-6,
    )  # fmt: skip
    line = Series(variant=Variant(algorithm="meshjoin"), changes=(("skew", 0.5),))
    for sweep, rows, memory in ((made["full"], 100_000_000, 1_200_000_000), (made["tiny"], 50_000, 600_000)):
        value = sweep.values[-1]
        scenario, variant = sweep.at(value, line)
        assert (scenario.table_rows, scenario.memory_bytes, scenario.skew) == (rows, memory, 0.5)
        assert variant is line.variant
        assert sweep.x(value) == 100.0
    assert made["full"].note == ""
    assert "hundredth" in made["quick"].note


def test_a_sweep_over_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="colour"):
        Sweep(base=SCENARIO, field="colour", values=(1.0,))
    with pytest.raises(ConfigError, match="0 values"):
        Sweep(base=SCENARIO, field="skew", values=())
