"""semistream: join a fast stream with a master table that does not fit in memory, under one byte budget.

    import semistream as ss

    customers = ss.prepare(spark.read.parquet("customers/"), "warehouse/customers", key="custkey")
    enriched = ss.join(orders_stream, customers, on="custkey", how="left", memory="64 MiB")
    enriched.writeStream...

Importing this package loads neither PySpark nor pandas; `prepare`, `join` and `metrics` load PySpark when
they are called.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _distribution_version
from pathlib import Path
from typing import TYPE_CHECKING

from semistream import edge
from semistream.errors import (
    BudgetError,
    ConfigError,
    CorruptionError,
    SchemaError,
    SemistreamError,
    StoreError,
)
from semistream.master_table.location import local_path
from semistream.master_table.page_store import MasterTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from semistream.spark.metrics import BatchMetrics

__all__ = [
    "BudgetError",
    "ConfigError",
    "CorruptionError",
    "MasterTable",
    "SchemaError",
    "SemistreamError",
    "StoreError",
    "join",
    "metrics",
    "open",
    "prepare",
]

try:
    __version__ = _distribution_version("semistream")
except PackageNotFoundError:  # running from a source tree
    __version__ = "0+unknown"


def prepare(
    df: DataFrame,
    path: str | Path,
    *,
    key: str | list[str],
    shards: int | None = None,
    page_size: int | str = "8 KiB",
    overwrite: bool = False,
) -> MasterTable:
    """Writes `df` as a master table at `path`, with one distributed Spark job, and opens it.

    Guarantee: the table at `path` is complete or not there; with `overwrite` the version before stays
    readable until the new one is committed, and for running queries after it.

    Cost: one shuffle and sort of `df`. Memory: what Spark's sort uses, and per task one of Spark's batches
    and a write buffer of 1 MiB, or two pages if they are larger.

    :param df: a batch DataFrame; nested columns are not supported (use `to_json`).
    :param path: a directory that every Spark worker sees under the same name; a path, or a file: URL.
    :param key: the column, or columns, to join on. Rows with a null in them match nothing and are left out.
    :param shards: files the table is split into by key hash; default: Spark's parallelism.
    :param page_size: power of two, 512 B to 16 MiB; no row may be wider than a page.
    """
    return _spark("prepare").prepare_table(
        edge.frame(df, name="df"),
        local_path(path),
        key=edge.names(key, name="key"),
        shards=edge.optional_whole_number(shards, name="shards"),
        page_size=page_size,
        overwrite=edge.flag(overwrite, name="overwrite"),
    )


def open(path: str | Path) -> MasterTable:
    """The newest version of the master table at `path`. Reads one small file; needs no Spark."""
    return MasterTable.open(local_path(path))


def join(
    stream: DataFrame,
    master: MasterTable | str | Path,
    *,
    on: str | list[str] | Mapping[str, str],
    how: str = "inner",
    memory: int | str = "256 MiB",
    algorithm: str = "adaptive",
    columns: str | list[str] | None = None,
    suffix: str | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Joins a streaming (or batch) DataFrame with a master table; the same kind of DataFrame comes out.

    Guarantee: the rows are those of Spark's own join, under task retries, speculation, killed workers and
    restarts of the query. Null keys never match. The row order is not kept.

    Memory: all tasks together hold at most `memory` bytes: front stage, waiting rows, page buffers, sketch
    and fences. Python, Arrow and the batches that Spark hands over are not in it. Front stages outlive tasks on
    the host they ran on, so on a cluster the bound is one per host; a speculative attempt adds what it needs
    without a front stage. `semistream clean` removes what ended queries left.

    :param on: a column name, a list of names, or a mapping from stream columns to the table's key columns.
    :param how: "inner", "left", "semi" or "anti".
    :param columns: which of the table's columns to add (default: all but the key); only these are cached.
    :param suffix: appended to a table column whose name the stream has, too; without it a clash is an error.
    :param tasks: parallel tasks, default: Spark's parallelism; more tasks than shards are of no use.
    """
    frame = edge.frame(stream, name="stream")
    arguments = {
        "on": edge.join_columns(on),
        "how": edge.text(how, name="how", example="left"),
        "memory": memory,
        "algorithm": edge.text(algorithm, name="algorithm", example="adaptive"),
        "columns": edge.optional_names(columns, name="columns"),
        "suffix": edge.optional_text(suffix, name="suffix", example="_m"),
        "tasks": edge.optional_whole_number(tasks, name="tasks"),
    }
    table = master if isinstance(master, MasterTable) else MasterTable.open(local_path(master, name="master"))
    return _spark("join").join_stream(frame, table, **arguments)


def metrics(query: StreamingQuery) -> list[BatchMetrics]:
    """What the joins of a streaming query did, one entry per recent micro-batch and join, oldest first.

    As far back as the query's own progress reports go (spark.sql.streaming.numRecentProgressUpdates).
    """
    return _spark("metrics").recent_metrics(edge.query(query))


def _spark(module: str):  # type: ignore[no-untyped-def]  # a module chosen by name
    import importlib

    try:
        return importlib.import_module(f"semistream.spark.{module}")
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in ("pyspark", "pandas"):
            raise SemistreamError(
                f"this needs PySpark, but '{error.name}' is not installed.",
                hint='pip install "semistream[spark]"',
            ) from None
        raise
