"""Streaming joins on local Spark: metrics, the front stage over batches and restarts, sinks."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.oracle import joined, rows_of
from tests.sparks import Settings, committed, file_stream, run_to_files, write_files

import semistream as ss
from semistream.joins import ALGORITHMS
from semistream.master_table.builder import build_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from semistream.spark.metrics import BatchMetrics

BATCHES = 4
ROWS = 3000


def master_table() -> pa.Table:
    return pa.table(
        {"k": pa.array([n // 2 for n in range(4000)]), "v": pa.array([f"v{n}" for n in range(4000)])}
    )


def stream_parts(seed: int = 1) -> list[pa.Table]:
    """Skewed keys, absent ones and nulls."""
    rng = np.random.default_rng(seed)
    parts = []
    for batch in range(BATCHES):
        keys = (rng.zipf(1.3, ROWS) * 7) % 3000
        known = rng.random(ROWS) > 0.05
        ids = np.arange(ROWS) + ROWS * batch
        parts.append(pa.table({"k": pa.array(keys, mask=~known), "id": pa.array(ids)}))
    return parts


def expected(parts: list[pa.Table], how: str) -> Counter[tuple[object, ...]]:
    return joined(pa.concat_tables(parts), master_table(), stream_key=["k"], master_key=["k"], how=how)


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ss.MasterTable:
    return build_store(
        master_table(), tmp_path_factory.mktemp("table") / "s", key="k", shards=3, page_size=1024
    )


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"adaptive"}))
def test_every_algorithm_drains_at_the_end_of_its_micro_batch(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path, algorithm: str
) -> None:
    parts = [part.slice(0, 700) for part in stream_parts()[:2]]
    stream = file_stream(spark, write_files(tmp_path / "in", parts))
    joined_rows = ss.join(stream, table, on="k", how="left", memory="4 MiB", algorithm=algorithm)
    query = run_to_files(joined_rows, tmp_path / "out", tmp_path / "checkpoint")
    assert committed(spark, tmp_path / "out") == expected(parts, "left")
    assert [m.rows_in for m in ss.metrics(query)] == [700, 700]
    assert all(m.rows_waiting == 0 for m in ss.metrics(query))


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_a_stream_gives_the_batch_joins_rows_and_counts_every_row(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path, how: str
) -> None:
    parts = stream_parts()
    stream = file_stream(spark, write_files(tmp_path / "in", parts))
    frame = ss.join(stream, table, on="k", how=how, memory="8 MiB", tasks=2)
    query = run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
    found = committed(spark, tmp_path / "out")
    assert found == expected(parts, how)
    batches = ss.metrics(query)
    assert [batch.batch_id for batch in batches] == list(range(BATCHES))
    for batch, part in zip(batches, parts, strict=True):
        batch.check_invariants()
        assert batch.tasks == 2
        # Rows with a null key cannot match; kinds that drop them need not even move them.
        nulls = part.column("k").null_count
        assert batch.rows_in == part.num_rows - (0 if how in ("left", "anti") else nulls)
        assert batch.null_keys == (nulls if how in ("left", "anti") else 0)
        assert batch.rows_in == batch.rows_matched + batch.rows_unmatched
        assert (batch.rows_waiting, batch.rows_shed) == (0, 0)
        assert 0 < batch.budget_peak_bytes <= batch.budget_bytes <= 8 << 20
    assert sum(batch.rows_out for batch in batches) == sum(found.values())
    assert batches[0].front_stage_cold_starts == 2
    assert [batch.front_stage_cold_starts for batch in batches[1:]] == [0] * (BATCHES - 1)
    assert batches[0].hits < batches[-1].hits
    assert batches[-1].hit_ratio > 0.7
    assert batches[-1].pages_read < batches[0].pages_read


def test_a_restarted_query_finds_its_front_stage_warm(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path
) -> None:
    parts = stream_parts()
    metrics = []
    for run in range(2):
        directory = write_files(tmp_path / "in", parts[: 2 * run + 2])
        frame = ss.join(file_stream(spark, directory), table, on="k", how="left", memory="8 MiB")
        metrics.append(ss.metrics(run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")))
    assert committed(spark, tmp_path / "out") == expected(parts, "left")
    assert metrics[0][0].front_stage_cold_starts == 2
    assert [batch.front_stage_cold_starts for batch in metrics[1]] == [0, 0]
    assert metrics[1][0].hits > metrics[0][0].hits


def test_two_joins_in_one_query_are_counted_apart(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path
) -> None:
    parts = stream_parts()[:2]
    stream = file_stream(spark, write_files(tmp_path / "in", parts))
    first = ss.join(stream, table, on="k", memory="8 MiB", tasks=2)
    second = ss.join(first, table, on="k", how="left", suffix="_again", memory="6 MiB", tasks=1)
    query = run_to_files(second, tmp_path / "out", tmp_path / "checkpoint")
    by_join: dict[str, list[BatchMetrics]] = {}
    for batch in ss.metrics(query):
        by_join.setdefault(batch.join, []).append(batch)
    assert len(by_join) == 2
    one, two = by_join.values()
    assert [batch.tasks for batch in (*one, *two)] in ([2, 2, 1, 1], [1, 1, 2, 2])
    outer, inner = (one, two) if one[0].tasks == 2 else (two, one)
    assert [batch.rows_out for batch in outer] == [batch.rows_in for batch in inner]
    once = joined(pa.concat_tables(parts), master_table(), stream_key=["k"], master_key=["k"], how="inner")
    found = committed(spark, tmp_path / "out")
    assert sum(found.values()) == 2 * sum(once.values())
    assert {row[:3] for row in found} == set(once)


def test_for_each_batch(spark: SparkSession, table: ss.MasterTable, tmp_path: Path) -> None:
    """Joined outside and used twice, and joined inside: the function may run once per action."""
    parts = stream_parts()[:2]
    stream = file_stream(spark, write_files(tmp_path / "in", parts))
    outside: list[tuple[object, ...]] = []
    inside: list[tuple[object, ...]] = []
    counts: list[int] = []

    def handle(frame: DataFrame, batch_id: int) -> None:
        counts.append(frame.count())
        outside.extend(rows_of(frame.toArrow()))
        again = ss.join(frame.select("k", "id"), table, on="k", how="semi", memory="8 MiB")
        inside.extend(rows_of(again.toArrow()))

    frame = ss.join(stream, table, on="k", memory="8 MiB")
    writer = frame.writeStream.foreachBatch(handle).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert Counter(outside) == expected(parts, "inner")
    assert sum(counts) == len(outside)
    # Every joined row has a key that the table holds.
    assert Counter(inside) == Counter(row[:2] for row in outside)


@pytest.mark.parametrize("aqe", [True, False])
def test_adaptive_execution_and_small_partitions(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path, aqe: bool
) -> None:
    parts = [part.slice(0, 200) for part in stream_parts()[:2]]
    settings = {
        "spark__sql__adaptive__enabled": aqe,
        "spark__sql__adaptive__streaming__stateless__enabled": aqe,
        "spark__sql__shuffle__partitions": 7,
    }
    with Settings(spark, **settings):
        stream = file_stream(spark, write_files(tmp_path / "in", parts))
        frame = ss.join(stream, table, on="k", how="left", memory="12 MiB", tasks=3)
        query = run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
    assert committed(spark, tmp_path / "out") == expected(parts, "left")
    assert [batch.tasks for batch in ss.metrics(query)] == [3, 3]


def test_a_lost_front_stage_directory_costs_reads_only(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path
) -> None:
    parts = stream_parts()
    for run in range(2):
        directory = write_files(tmp_path / "in", parts[: 2 * run + 2])
        frame = ss.join(file_stream(spark, directory), table, on="k", how="left", memory="8 MiB")
        query = run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
        (kept,) = Path("/dev/shm").glob(f"semistream-*/{query.id}")
        assert list(kept.glob("*.front"))
        shutil.rmtree(kept)
    assert committed(spark, tmp_path / "out") == expected(parts, "left")
    assert ss.metrics(query)[0].front_stage_cold_starts == 2


@pytest.mark.parametrize("shape", ["coalesced", "a union"])
def test_what_follows_the_join_may_renumber_its_partitions(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path, shape: str
) -> None:
    """Spark numbers a task by the last frame of its stage, so that number says nothing of the join's shards."""
    parts = stream_parts()[:2]
    # Two whole Arrow batches without any key come first.
    nulls = pa.table({"k": pa.nulls(25_000, pa.int64()), "id": pa.array(range(90_000, 115_000))})
    parts[0] = pa.concat_tables([nulls, parts[0]])
    stream = file_stream(spark, write_files(tmp_path / "in", parts))
    frame = ss.join(stream, table, on="k", how="left", memory="12 MiB", tasks=3)
    wanted = expected(parts, "left")
    if shape == "coalesced":
        frame = frame.coalesce(1)
    else:
        more = stream.selectExpr("k", "id + 1000000 as id")
        frame = frame.union(ss.join(more, table, on="k", how="left", memory="12 MiB", tasks=2)).coalesce(2)
        wanted = wanted + Counter({(k, i + 1_000_000, v): n for (k, i, v), n in wanted.items()})
    query = run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
    assert committed(spark, tmp_path / "out") == wanted
    for batch in ss.metrics(query):
        batch.check_invariants()
