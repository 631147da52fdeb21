"""A plan asks all models, chooses page sizes, and gives a reason."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cost_settings import MIB, setting

from semistream.cost_model.master import facts_of
from semistream.cost_model.models import MODELS
from semistream.cost_model.plan import PAGE_BYTES_CHOICES, make_plan
from semistream.cost_model.profiles import NVME
from semistream.cost_model.setting import Sizes
from semistream.errors import BudgetError, ConfigError, StoreError
from semistream.master_table.builder import build_store


def test_every_algorithm_is_asked_and_the_fastest_comes_first() -> None:
    plan = make_plan(setting(device=NVME), memory_bytes=12e6)
    assert {option.algorithm for option in plan.options} == set(MODELS)
    rates = [option.prediction.rows_per_s for option in plan.options if option.prediction]
    assert rates == sorted(rates, reverse=True)
    assert plan.recommended == "adaptive"
    assert "rows/s" in plan.reason
    assert "cache" in plan.reason
    assert all(option.needed_bytes is None for option in plan.options)


def test_with_a_rate_alone_memory_is_what_is_predicted() -> None:
    plan = make_plan(setting(), rate=30_000.0)
    needed = {option.algorithm: option.needed_bytes for option in plan.options}
    assert needed["inlj"] == math.inf
    assert needed["ssbj"] < needed["meshjoin"]
    assert plan.recommended is not None
    assert "for 30,000 rows/s" in plan.reason
    for option in plan.options:
        if option.prediction is not None:
            assert option.prediction.rows_per_s >= 30_000 * 0.99


def test_with_both_it_says_what_is_missing() -> None:
    plan = make_plan(setting(), memory_bytes=3e6, rate=200_000.0)
    assert "200,000 rows/s need" in plan.reason
    assert plan.to_dict()["options"][0]["needed_bytes"] > 3e6


def test_page_sizes_are_chosen_where_they_can_be() -> None:
    free = make_plan(setting(), memory_bytes=12e6)
    fixed = make_plan(setting(), memory_bytes=12e6, page_bytes_choices=(8192,))
    for option in fixed.options:
        assert option.prediction is None or option.prediction.page_bytes == 8192
    rates = {option.algorithm: option.prediction.rows_per_s for option in fixed.options if option.prediction}
    for option in free.options:
        if option.prediction is not None:
            assert option.prediction.page_bytes in PAGE_BYTES_CHOICES
            assert option.prediction.rows_per_s >= rates[option.algorithm] * 0.999


def test_without_an_index_only_scans_are_left() -> None:
    plan = make_plan(setting(), memory_bytes=12e6, has_index=False)
    assert {option.algorithm for option in plan.options} == {"meshjoin", "rmeshjoin", "cmeshjoin", "ssbj"}
    assert plan.recommended in ("cmeshjoin", "ssbj")


def test_too_little_for_any() -> None:
    plan = make_plan(setting(), memory_bytes=1000.0)
    assert plan.recommended is None
    assert "no algorithm runs in 1000 B" in plan.reason
    plan = make_plan(setting(), rate=1e8)
    assert plan.recommended is None
    assert "100,000,000 rows/s" in plan.reason
    text = json.dumps(plan.to_dict(), allow_nan=False)
    assert json.loads(text)["options"][0]["needed_bytes"] is None


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({}, ConfigError, "memory, the stream's rate, or both"),
        ({"rate": -1.0}, ConfigError, "rows/s"),
        ({"memory_bytes": 0.0}, BudgetError, "no memory"),
    ],
)
def test_what_cannot_be_planned(asked: dict[str, float], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make_plan(setting(), **asked)  # type: ignore[arg-type]


def test_rows_larger_than_any_page() -> None:
    wide = replace(setting(), sizes=Sizes(v_R=2 * MIB))
    with pytest.raises(ConfigError, match="do not fit a page"):
        make_plan(wide, memory_bytes=1e9)


def test_a_master_table_may_be_named_by_a_url(tmp_path: Path) -> None:
    rows = pa.table({"k": range(1000), "v": range(1000)})
    pq.write_table(rows, tmp_path / "my table.parquet")
    build_store(rows, tmp_path / "store", key="k")
    for name in ("my table.parquet", "store"):
        url = f"file://{tmp_path}/{name}".replace(" ", "%20")
        # The command line makes a Path of it, which leaves one slash.
        assert facts_of(url) == facts_of(Path(url)) == facts_of(tmp_path / name)
        assert facts_of(url).rows == 1000
    with pytest.raises(ConfigError, match="storage of the kind 's3'"):
        facts_of("s3://bucket/table")


def test_facts_of_parquet(tmp_path: Path) -> None:
    for part in range(2):
        pq.write_table(
            pa.table({"key": range(1000), "name": ["x" * 20] * 1000}), tmp_path / f"{part}.parquet"
        )
    found = facts_of(tmp_path)
    assert (found.rows, found.page_bytes) == (2000, None)
    assert facts_of(tmp_path / "0.parquet").rows == 1000
    assert found.row_bytes > 4


def test_what_is_no_table(tmp_path: Path) -> None:
    empty, text = tmp_path / "empty.parquet", tmp_path / "text.parquet"
    pq.write_table(pa.table({"key": pa.array([], pa.int64())}), empty)
    with pytest.raises(ConfigError, match="no rows"):
        facts_of(empty)
    text.write_text("text")
    with pytest.raises(ConfigError, match="cannot be read"):
        facts_of(text)
    with pytest.raises(ConfigError, match="neither a prepared store nor Parquet"):
        facts_of(tmp_path / "missing")
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        facts_of(tmp_path)
