"""Helpers for tests that run Spark."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.oracle import bag

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def spark_bag(df: DataFrame) -> Counter[tuple[object, ...]]:
    return bag(df.toArrow())


def write_files(directory: Path, parts: list[pa.Table]) -> Path:
    """One Parquet file per part; a file source with maxFilesPerTrigger=1 makes one micro-batch of each."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        file = directory / f"{number:04d}.parquet"
        if not file.exists():
            pq.write_table(part, file)
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # the source goes by age
    return directory


def file_stream(spark: SparkSession, directory: Path) -> DataFrame:
    schema = spark.read.parquet(str(directory)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))


def run_to_files(df: DataFrame, out: Path, checkpoint: Path) -> StreamingQuery:
    """Runs all micro-batches that are there into Parquet files."""
    query = (
        df.writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(out))
    )
    query.awaitTermination()
    return query


def committed(spark: SparkSession, out: Path) -> Counter[tuple[object, ...]]:
    """What the file sink committed: Spark's reader goes by the sink's log, not by the files that lie there."""
    return spark_bag(spark.read.parquet(str(out)))


class Settings:
    """Changes Spark settings for a `with` block."""

    def __init__(self, spark: SparkSession, **settings: Any) -> None:
        self._spark, self._settings = spark, {name.replace("__", "."): v for name, v in settings.items()}

    def __enter__(self) -> None:
        self._before = {name: self._spark.conf.get(name, None) for name in self._settings}
        for name, value in self._settings.items():
            self._spark.conf.set(name, str(value))

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                self._spark.conf.unset(name)
            else:
                self._spark.conf.set(name, value)
