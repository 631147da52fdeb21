"""Building a master table with Spark: one shuffle by shard, one sort, one file per shard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.taskcontext import TaskContext

from semistream import errors
from semistream.errors import ConfigError, SemistreamError
from semistream.master_table.builder import ShardSpec, draft_store, write_shard
from semistream.master_table.page_store import MasterTable
from semistream.master_table.shard_file import ShardInfo
from semistream.spark.schemas import canonical, master_schema, numbered, parallelism, quoted, shard_column

_REPORT_SCHEMA = "shard int, info string, error string"
_REPORT = pa.schema([("shard", pa.int32()), ("info", pa.string()), ("error", pa.string())])


def prepare_table(
    df: DataFrame,
    path: str | Path,
    *,
    key: str | list[str],
    shards: int | None,
    page_size: int | str,
    overwrite: bool,
) -> MasterTable:
    """See `semistream.prepare`."""
    if df.isStreaming:
        raise ConfigError(
            "prepare() got a streaming DataFrame.",
            hint="read the master table with spark.read, not readStream.",
        )
    keys = [key] if isinstance(key, str) else list(key)
    count = parallelism(df) if shards is None else shards
    schema = master_schema(df)
    with draft_store(
        path, schema=schema, key=keys, shards=count, page_size=page_size, overwrite=overwrite
    ) as draft:
        rows = df.select(*(F.col(quoted(column.name)) for column in draft.spec.columns))
        for name in keys:
            rows = rows.where(F.col(quoted(name)).isNotNull())
        placed = rows.repartitionById(count, shard_column(rows, keys, count, with_nulls=False))
        ordered = placed.sortWithinPartitions(*(canonical(rows, name) for name in keys))
        reports = numbered(ordered).mapInArrow(_shard_writer(draft.spec), _REPORT_SCHEMA).collect()
        infos = {}
        for report in reports:
            if report["error"]:
                raise _rebuilt(report["error"])
            infos[report["shard"]] = ShardInfo(**json.loads(report["info"]))
        if not infos:  # Spark starts no task for a frame that it knows to be empty
            infos = {shard: write_shard(draft.spec, shard, []) for shard in range(count)}
        return draft.commit([infos[shard] for shard in range(count)])


def _shard_writer(spec: ShardSpec) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        shard, info, error = context.partitionId(), None, None
        try:
            info = json.dumps(asdict(write_shard(spec, shard, batches)))
        except SemistreamError as problem:
            # Reported instead of raised: trying again would not help, and the message stays readable.
            error = json.dumps([type(problem).__name__, problem.message, problem.hint])
        yield pa.RecordBatch.from_pylist([{"shard": shard, "info": info, "error": error}], schema=_REPORT)

    return write


def _rebuilt(report: str) -> SemistreamError:
    name, message, hint = json.loads(report)
    kind = getattr(errors, name, SemistreamError)
    found: SemistreamError = kind(message, hint=hint)
    return found
