"""The front stage beside Polars' and DuckDB's in-memory hash joins of the same rows, each on one thread.

The two hold all of R in memory and build their hash table anew with every join, as libraries do; the front
stage holds the hot keys, and was filled by the stream. All give Arrow rows with the same columns.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semistream.errors import SemistreamError
from semistream.joins import RunningJoin
from semistream.simulation.core_data import CoreData, Say
from semistream.workloads.tables import KEY
from semistream.workloads.zipf import ZipfKeys

Join = Callable[[pa.RecordBatch], int]


def measure(join: RunningJoin, data: CoreData, *, batch_rows: int, rounds: int, say: Say) -> dict[str, Any]:
    """Medians of rows/s over rounds in which the sides take turns, for a batch of rows that the warm front stage of
    `join` answers, and how many times faster it is than each of the others."""
    batch = _answered(join, data, batch_rows)
    table = pq.read_table([str(path) for path in data.table_files])
    sides: dict[str, Join] = {"front_stage": lambda rows: _push(join, rows)}
    sides["polars"] = _polars(table)
    sides["duckdb"] = _duckdb(table)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    expected = batch.num_rows
    for number in range(rounds + 1):
        say(f"in-memory joins: round {number} of {rounds}")
        names = list(sides)
        for name in names[number % 3 :] + names[: number % 3]:
            started = time.perf_counter()
            rows = sides[name](batch)
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - started)
            if rows != expected:
                raise RuntimeError(f"{name} gave {rows:,} rows for {expected:,}")
    rates = {name: expected / statistics.median(taken) for name, taken in seconds.items()}
    return {
        "rows": expected,
        "hit_ratio": _hit_ratio(join, batch),
        **{f"{name}_rows_s": rate for name, rate in rates.items()},
        **{
            f"times_{name}": rates["front_stage"] / rate
            for name, rate in rates.items()
            if name != "front_stage"
        },
    }


def _answered(join: RunningJoin, data: CoreData, rows: int) -> pa.RecordBatch:
    """Rows whose keys are far inside the hot set: of these the front stage answers nearly all."""
    join.front_stage.report(join.metrics)
    hot = max(1, join.metrics.front_stage_keys // 2)
    keys, pieces, found = ZipfKeys(data.zipf), [], 0
    for batch in data.batches(rows, first_batch=5_000_000):
        inside = np.flatnonzero(keys.ranks_of(batch.column(KEY).to_numpy()) < hot)
        pieces.append(batch.take(pa.array(inside[: rows - found])))
        found += pieces[-1].num_rows
        if found >= rows:
            break
    return pa.concat_batches(pieces)


def _push(join: RunningJoin, batch: pa.RecordBatch) -> int:
    rows = sum(out.num_rows for out in join.push(batch))
    return rows + sum(out.num_rows for out in join.flush())


def _hit_ratio(join: RunningJoin, batch: pa.RecordBatch) -> float:
    before = join.metrics.hits
    _push(join, batch)
    return (join.metrics.hits - before) / batch.num_rows


def _polars(table: pa.Table) -> Join:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # read when Polars is loaded
    try:
        import polars as pl
    except ModuleNotFoundError as error:
        raise _missing("polars") from error
    if pl.thread_pool_size() != 1:
        raise SemistreamError(
            f"Polars runs on {pl.thread_pool_size()} threads here; the comparison is of one core.",
            hint="set POLARS_MAX_THREADS=1, and start anew.",
        )
    frame: Any = pl.from_arrow(table)

    def join(batch: pa.RecordBatch) -> int:
        stream: Any = pl.from_arrow(pa.Table.from_batches([batch]))
        return int(stream.join(frame, on=KEY, how="inner").to_arrow().num_rows)

    return join


def _duckdb(table: pa.Table) -> Join:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise _missing("duckdb") from error
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.register("arrow_table", table)
    connection.execute("CREATE TABLE r AS SELECT * FROM arrow_table")
    connection.unregister("arrow_table")

    def join(batch: pa.RecordBatch) -> int:
        connection.register("s", pa.Table.from_batches([batch]))
        found = connection.sql(f"SELECT * FROM s JOIN r USING ({KEY})").to_arrow_table()
        return int(found.num_rows)

    return join


def _missing(package: str) -> SemistreamError:
    return SemistreamError(
        f"the comparison needs {package}, which is not installed.", hint='pip install "semistream[bench]"'
    )
