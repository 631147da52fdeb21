"""Front stages by name."""

from __future__ import annotations

from typing import Any

import pytest
from tests import front_stages as fs

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import FrontStage
from semistream.errors import ConfigError
from semistream.front_stage.frequency import RecentKeys, RowsMatched
from semistream.front_stage.pages import PageCache
from semistream.front_stage.registry import (
    FRONT_STAGES,
    SIZES_MIN_BYTES,
    FrontStageRequest,
    make_front_stage,
)
from semistream.testing.discovery import implementations


def request(size_bytes: int, **changed: Any) -> FrontStageRequest:
    given = {
        "budget": MemoryBudget(size_bytes),
        "size_bytes": size_bytes,
        "layout": fs.LAYOUT,
        "fixed": True,
        "row_bytes": 60.0,
        "decode_bytes": 1 << 12,
        "probabilities": fs.zipf_probabilities(1000),
    }
    return FrontStageRequest(**(given | changed))


@pytest.mark.parametrize("name", FRONT_STAGES)
def test_each_can_be_made_as_small_as_it_says_and_works(name: str) -> None:
    asked = request(max(1, SIZES_MIN_BYTES[name]))
    stage = make_front_stage(name, asked)
    assert asked.budget.by_name().get("front stage", 0) <= asked.size_bytes
    for batch in range(3):
        fs.drain(stage, list(range(100 * batch, 100 * batch + 200)) * 3)
        stage.check_invariants()
    assert (fs.report(stage).front_stage_keys > 0) == (name != "none")
    stage.close()


def test_every_front_stage_has_a_name() -> None:
    kinds = {type(make_front_stage(name, request(1 << 16))) for name in FRONT_STAGES}
    # Pages of R are cached only where the access path has them open: by SSIJ and the partition-based join.
    assert kinds | {PageCache} == set(implementations(FrontStage, "semistream.front_stage"))
    assert SIZES_MIN_BYTES.keys() == FRONT_STAGES.keys()


def test_rows_that_come_one_by_one_are_counted_by_the_front_stage() -> None:
    for one_by_one, kind in ((True, RecentKeys), (False, RowsMatched)):
        stage = make_front_stage("threshold", request(1 << 16, one_by_one=one_by_one))
        assert isinstance(stage._detector, kind)  # type: ignore[attr-defined]


def test_what_cannot_be_made_is_an_error_that_says_why() -> None:
    with pytest.raises(ConfigError, match="'arc' is unknown") as unknown:
        make_front_stage("arc", request(1 << 16))
    assert "w_tinylfu" in str(unknown.value)
    with pytest.raises(ConfigError, match="probabilities"):
        make_front_stage("clairvoyant", request(1 << 16, probabilities=None))
