"""What may stand around the join in a plan: watermarks, one joined frame used twice, other Arrow types."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.oracle import joined
from tests.sparks import Settings, committed, file_stream, run_to_files, spark_bag, write_files

import semistream as ss
from semistream.master_table.builder import build_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER = pa.table({"k": pa.array(range(0, 300, 2)), "v": pa.array([f"v{k % 7}" for k in range(0, 300, 2)])})
SECOND = 1_000_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ss.MasterTable:
    return build_store(MASTER, tmp_path_factory.mktemp("table") / "s", key="k", shards=2, page_size=1024)


def parts(count: int) -> list[pa.Table]:
    """Micro-batch n covers the seconds from 100 n to 100 n + 99, and repeats one row of long ago."""
    made = []
    for number in range(count):
        seconds = [*range(100 * number, 100 * number + 100), 5]
        at = pa.array([second * SECOND for second in seconds], pa.timestamp("us", "UTC"))
        made.append(pa.table({"k": pa.array([second % 300 for second in seconds]), "at": at}))
    return made


def counts(frame: DataFrame, out: Path) -> Counter[tuple[object, ...]]:
    """Rows per value and window of 10 s, as they become final: this needs a watermark on `at`."""
    from pyspark.sql import functions as F

    grouped = frame.groupBy(F.window("at", "10 seconds"), "v").count()
    final = grouped.selectExpr("unix_seconds(window.start) as start", "v", "count")
    run_to_files(final, out / "out", out / "checkpoint")
    return committed(frame.sparkSession, out / "out")


def test_a_watermark_goes_through_the_join(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path
) -> None:
    stream = file_stream(spark, write_files(tmp_path / "in", parts(4))).withWatermark("at", "20 seconds")
    master = spark.createDataFrame(MASTER.to_pandas())
    ours = counts(ss.join(stream, table, on="k", how="left", memory="4 MiB"), tmp_path / "ours")
    assert ours == counts(stream.join(master, "k", "left"), tmp_path / "spark")
    starts = {row[0] for row in ours}
    assert 0 in starts
    assert max(starts) < 400 - 20, "the last windows are not final yet"
    # The row of long ago came with every micro-batch, and was counted only before its window was final.
    in_first = sum(row[2] * times for row, times in ours.items() if row[0] == 0)  # type: ignore[operator]
    assert in_first < 10 + 4


def test_one_joined_frame_in_a_union_with_itself(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path
) -> None:
    made = parts(3)
    frame = ss.join(
        file_stream(spark, write_files(tmp_path / "in", made)), table, on="k", how="left", memory="4 MiB"
    )
    both = frame.selectExpr("k", "v", "1 as side").union(frame.selectExpr("k", "v", "2 as side"))
    run_to_files(both, tmp_path / "out", tmp_path / "checkpoint")
    once = joined(
        pa.concat_tables(made).select(["k"]), MASTER, stream_key=["k"], master_key=["k"], how="left"
    )
    assert committed(spark, tmp_path / "out") == Counter(
        {(k, v, side): times for (k, v), times in once.items() for side in (1, 2)}
    )


def test_one_joined_frame_in_two_queries_at_once(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path
) -> None:
    made = parts(3)
    frame = ss.join(
        file_stream(spark, write_files(tmp_path / "in", made)), table, on="k", memory="4 MiB"
    ).select("k", "v")
    queries = [
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / f"checkpoint{number}"))
        .trigger(availableNow=True)
        .start(str(tmp_path / f"out{number}"))
        for number in range(2)
    ]
    wanted = joined(
        pa.concat_tables(made).select(["k"]), MASTER, stream_key=["k"], master_key=["k"], how="inner"
    )
    for number, query in enumerate(queries):
        query.awaitTermination()
        assert committed(spark, tmp_path / f"out{number}") == wanted
        batches = ss.metrics(query)
        assert [batch.batch_id for batch in batches] == [0, 1, 2]
        assert sum(batch.rows_out for batch in batches) == sum(wanted.values())


@pytest.mark.parametrize("at", ["prepare", "join", "both"])
def test_large_var_types(spark: SparkSession, tmp_path: Path, at: str) -> None:
    """With this setting Spark sends strings and binaries with 64-bit offsets, and expects them back so."""
    master = spark.range(60).selectExpr(
        "concat('key', id) as k", "repeat('ü', cast(id % 9 as int)) as v", "cast(string(id) as binary) as b"
    )
    stream = spark.range(40, 90).selectExpr("concat('key', id) as k", "cast('x' as binary) as own")

    def large(step: str) -> Settings:
        return Settings(spark, spark__sql__execution__arrow__useLargeVarTypes=at in (step, "both"))

    with large("prepare"):
        table = ss.prepare(master, tmp_path / "s", key="k", shards=2)
    assert not any(pa.types.is_large_string(field.type) for field in table.schema)
    with large("join"):
        found = spark_bag(ss.join(stream, table, on="k", how="left", memory="4 MiB"))
    assert found == spark_bag(stream.join(master, "k", "left").select("k", "own", "v", "b"))


def test_a_restart_with_other_tasks_or_memory_replaces_the_front_stages(
    spark: SparkSession, table: ss.MasterTable, tmp_path: Path
) -> None:
    sizes = []
    for run, (tasks, memory) in enumerate([(2, 8 << 20), (2, 12 << 20), (1, 6 << 20)]):
        directory = write_files(tmp_path / "in", parts(2 * run + 2))
        frame = ss.join(file_stream(spark, directory), table, on="k", memory=memory, tasks=tasks)
        query = run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
        files = [*Path("/dev/shm").glob(f"semistream-*/{query.id}/*.front")]
        assert len(files) == tasks
        sizes.append(sum(file.stat().st_size for file in files))
        assert sizes[-1] <= memory
    assert sizes[2] < sizes[0] < sizes[1]
