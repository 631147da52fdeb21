"""The table of compositions: names, front stages to choose from, and what a composition is made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.oracle import joined
from tests.stores import lookup

from semistream.errors import BudgetError, ConfigError
from semistream.front_stage.registry import FRONT_STAGES
from semistream.joins import ALGORITHMS, minimum_task_bytes, with_front_stage
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable

MASTER = pa.table({"k": pa.array(range(3000)), "v": pa.array([f"{n:030d}" for n in range(3000)])})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return build_store(MASTER, tmp_path_factory.mktemp("joins") / "s", key="k", shards=2, page_size=1024)


def skewed(rows: int, seed: int = 1) -> pa.Table:
    """Some keys are very frequent, and some are absent."""
    keys = np.random.default_rng(seed).zipf(1.2, rows) % 3500
    return pa.table({"k": pa.array(keys), "id": pa.array(range(rows))})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_name_needs_little_and_says_how_much(table: MasterTable, algorithm: str) -> None:
    least = minimum_task_bytes(table, [0, 1], algorithm)
    assert least < 2 << 20
    with pytest.raises(BudgetError, match="minimum") as caught:
        lookup(table, skewed(10), algorithm=algorithm, memory_bytes=least // 2)
    assert f"{least:,}" in str(caught.value)
    assert "Hint:" in str(caught.value)


def test_unknown_names_are_told_the_known_ones(table: MasterTable) -> None:
    with pytest.raises(ConfigError, match="magic") as caught:
        lookup(table, skewed(10), algorithm="magic")
    assert "chybridjoin" in str(caught.value)
    with pytest.raises(ConfigError, match="magic") as caught:
        lookup(table, skewed(10), front_stage="magic")
    assert "s3_fifo" in str(caught.value)


@pytest.mark.parametrize("front_stage", sorted(set(FRONT_STAGES) - {"none", "clairvoyant"}))
@pytest.mark.parametrize("algorithm", ["meshjoin", "hybridjoin", "adaptive"])
def test_a_front_stage_answers_and_saves_reads(table: MasterTable, algorithm: str, front_stage: str) -> None:
    stream = skewed(20_000)
    memory = minimum_task_bytes(table, [0, 1], "adaptive") + (600 << 10)
    found, metrics = lookup(
        table,
        stream,
        algorithm=algorithm,
        front_stage=front_stage,
        memory_bytes=memory,
        batch_rows=500,
        how="left",
    )
    assert found == joined(stream, MASTER, stream_key=["k"], master_key=["k"], how="left")
    assert metrics.hits > metrics.rows_in / 5
    assert metrics.switched > 0
    # A key is cached once, however often it is offered.
    assert metrics.front_stage_keys <= 3500


def test_without_a_front_stage_nobody_is_looked_up_in_it(table: MasterTable) -> None:
    """What is counted is charged on the virtual clock."""
    memory = minimum_task_bytes(table, [0, 1], "adaptive") + (100 << 10)
    for front_stage, share in (("none", 0), ("density", 1)):
        _, metrics = lookup(
            table, skewed(1000), algorithm="adaptive", front_stage=front_stage, memory_bytes=memory
        )
        assert metrics.probes == share * metrics.rows_in


def test_another_front_stage_gets_its_share() -> None:
    bare, cached = ALGORITHMS["meshjoin"], ALGORITHMS["cmeshjoin"]
    assert with_front_stage(bare, None) is bare
    assert with_front_stage(bare, "none") is bare
    assert with_front_stage(cached, "none").shares == bare.shares
    assert with_front_stage(bare, "threshold").shares == cached.shares
    assert with_front_stage(bare, "balanced").shares == ALGORITHMS["ssbj"].shares
    assert with_front_stage(ALGORITHMS["ssbj"], "lru").shares == cached.shares


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_empty_inputs(tmp_path: Path, table: MasterTable, algorithm: str) -> None:
    nothing = build_store(MASTER.slice(0, 0), tmp_path / "empty", key="k", shards=2)
    stream = skewed(300)
    memory = 2 << 20
    found, metrics = lookup(nothing, stream, algorithm=algorithm, how="left", memory_bytes=memory)
    assert found == joined(stream, MASTER.slice(0, 0), stream_key=["k"], master_key=["k"], how="left")
    assert metrics.rows_unmatched == 300
    found, metrics = lookup(table, stream.slice(0, 0), algorithm=algorithm, memory_bytes=memory)
    assert not found
    assert metrics.steps == 0


def test_ssbj_gives_the_memory_to_whoever_needs_it(tmp_path: Path) -> None:
    """Of wide master rows, only those are cached that many wait for; the waiting room gives way to them."""
    wide = pa.table({"k": pa.array(range(3000)), "v": pa.array([f"{n:0600d}" for n in range(3000)])})
    table = build_store(wide, tmp_path / "s", key="k", page_size=4096)
    memory = minimum_task_bytes(table, [0], "ssbj") + (200 << 10)
    uniform = pa.table({"k": pa.array(np.arange(30_000) * 7919 % 3000), "id": pa.array(range(30_000))})
    runs = {}
    for name, stream in (("skewed", skewed(30_000)), ("uniform", uniform)):
        found, runs[name] = lookup(table, stream, algorithm="ssbj", memory_bytes=memory, batch_rows=1000)
        assert found == joined(stream, wide, stream_key=["k"], master_key=["k"], how="inner")
        assert 0.5 * memory < runs[name].budget_peak_bytes <= memory
    assert runs["skewed"].hit_ratio > 0.3
    assert runs["uniform"].hit_ratio < 0.05
    assert runs["skewed"].steps < runs["uniform"].steps
