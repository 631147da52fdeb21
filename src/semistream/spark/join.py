"""The stateless runtime: every row leaves in its own micro-batch, so Spark's guarantees carry over.

    stream -> repartitionById(tasks) -> mapInArrow(the loop) -> observe(metrics) -> same kind of frame

Nothing a task keeps is needed for a right answer. The front stage is soft state in a file that belongs to
the query and the task's number; see `front_stage.region`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.taskcontext import TaskContext

from semistream.access_path.planned import ReadCosts
from semistream.core.arrow import validity
from semistream.core.budget import format_bytes, parse_bytes
from semistream.core.keys import KeyEncoder
from semistream.core.loop import JoinShape
from semistream.core.metrics import JoinMetrics
from semistream.errors import BudgetError, ConfigError
from semistream.front_stage.region import Owner, Region, boot_id
from semistream.joins import (
    RegionSource,
    check_algorithm,
    minimum_bytes,
    private_region,
    resolve_shape,
    shards_of_task,
    start_join,
)
from semistream.master_table.page_store import MasterTable
from semistream.spark.metrics import OBSERVATION_PREFIX
from semistream.spark.schemas import (
    check_key_type,
    numbered,
    numbered_name,
    parallelism,
    shard_column,
    spark_fields,
    stream_schema,
)

METRICS_COLUMN = "__semistream_metrics"
_METRICS_TYPE = pa.binary()  # counters as little-endian 64-bit numbers: the cheapest column to carry as nulls
_numbers = itertools.count()


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """What travels to the workers: enough to open the table and compose the join there."""

    path: str
    version: int
    fingerprint: str
    shape: JoinShape
    algorithm: str
    tasks: int
    task_bytes: int

    @classmethod
    def of(
        cls, table: MasterTable, shape: JoinShape, *, algorithm: str, tasks: int, task_bytes: int
    ) -> TaskSpec:
        return cls(
            path=str(table.path),
            version=table.version,
            fingerprint=table.fingerprint,
            shape=shape,
            algorithm=algorithm,
            tasks=tasks,
            task_bytes=task_bytes,
        )

    def open_table(self) -> MasterTable:
        """The very version the query was started with. StoreError if it is gone, or another one has its place."""
        table = MasterTable.open(self.path, version=self.version)
        table.check_is(self.fingerprint)
        return table

    @property
    def setup(self) -> str:
        """All that what a front stage remembers depends on, but for the task."""
        shape = self.shape
        parts = [
            self.path, self.version, self.fingerprint, shape.kind.needs_rows, shape.value_positions,
            shape.key_positions, str(shape.output_schema), self.algorithm, self.tasks, self.task_bytes, boot_id(),
        ]  # fmt: skip
        return repr(parts)

    def identity(self, task: int) -> str:
        """Two tasks with the same identity may use each other's front stage."""
        return f"{self.setup} {task}"

    def owner(self, task: int, *, query_id: str, run_id: str) -> Owner:
        """Joins of a query that differ in these parts of the shape never replace each other's front stages."""
        shape = self.shape
        join = repr([self.path, shape.kind.needs_rows, shape.value_positions, shape.key_positions])
        return Owner(query_id=query_id, run_id=run_id, join=join, setup=self.setup, task=task)


def join_stream(
    stream: DataFrame,
    table: MasterTable,
    *,
    on: str | list[str] | Mapping[str, str],
    how: str,
    memory: int | str,
    algorithm: str,
    columns: str | list[str] | None,
    suffix: str | None,
    tasks: int | None,
) -> DataFrame:
    """See `semistream.join`."""
    check_algorithm(algorithm)
    memory_bytes = parse_bytes(memory, name="memory")
    if tasks is not None and tasks < 1:
        raise ConfigError(f"tasks={tasks} is out of range.", hint="use 1 or more, or leave it out.")
    shape = resolve_shape(stream_schema(stream), table, on=on, how=how, columns=columns, suffix=suffix)
    count = min(parallelism(stream) if tasks is None else tasks, table.shards)
    least = minimum_bytes(table, count, algorithm)
    if memory_bytes < least:
        raise BudgetError(
            f"memory={memory!r} is too little for {count} task(s) on this table; the minimum is "
            f"{format_bytes(least)} ({least:,} bytes).",
            hint="raise memory=, or lower tasks=.",
        )
    spec = TaskSpec.of(table, shape, algorithm=algorithm, tasks=count, task_bytes=memory_bytes // count)
    for position in shape.key_positions:
        check_key_type(stream.schema.fields[position])
    # Renamed before the rows are sent: there they are written anew anyway.
    rows = numbered(stream)
    keys = [rows.columns[position] for position in shape.key_positions]
    if not shape.kind.absent:
        for name in keys:
            rows = rows.where(F.col(name).isNotNull())
    placed = rows.repartitionById(count, shard_column(rows, keys, table.shards, with_nulls=shape.kind.absent))
    values = spark_fields(list(shape.output_schema)[len(rows.columns) :])
    fields = [
        T.StructField(numbered_name(position), field.dataType, True, field.metadata)
        for position, field in enumerate([*stream.schema.fields, *values])
    ]
    carried = T.StructField(METRICS_COLUMN, T.BinaryType(), True)
    joined = placed.mapInArrow(_task(spec), T.StructType([*fields, carried]))
    observed = joined.observe(
        f"{OBSERVATION_PREFIX}{next(_numbers)}", F.collect_list(METRICS_COLUMN).alias("tasks")
    )
    rows = observed.where(F.col(METRICS_COLUMN).isNull()).drop(METRICS_COLUMN)
    return rows.toDF(*shape.output_schema.names)


def _task(spec: TaskSpec) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from run_task(spec, batches)

    return run


def run_task(spec: TaskSpec, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task of one micro-batch: joins its rows, then sends one extra row that carries the metrics."""
    started, cpu_started = time.perf_counter_ns(), time.process_time_ns()
    schema, metrics = None, JoinMetrics()
    for rows in _joined_rows(spec, batches, metrics):
        schema = schema or _with_metrics(rows.schema)
        yield _data(rows, schema)
    metrics.task_ns = time.perf_counter_ns() - started
    metrics.cpu_ns = time.process_time_ns() - cpu_started
    yield _carrier(metrics, schema or _with_metrics(spec.shape.output_schema))


def _joined_rows(
    spec: TaskSpec, batches: Iterator[pa.RecordBatch], metrics: JoinMetrics
) -> Iterator[pa.RecordBatch]:
    """The join's output; its counters are added to `metrics` at the end."""
    key_types = [spec.shape.output_schema.field(position).type for position in spec.shape.key_positions]
    encoder, task = KeyEncoder(key_types), None
    for batch in batches:
        task = _task_of(spec, encoder, batch)
        if task is not None:
            batches = itertools.chain([batch], batches)
            break
        yield from _without_keys(spec, batch, metrics)
    if task is None:
        return
    table = spec.open_table()
    with start_join(
        table,
        spec.shape,
        algorithm=spec.algorithm,
        memory_bytes=spec.task_bytes,
        shards=shards_of_task(task, spec.tasks, table.shards),
        region_source=_region_source(spec, task),
        identity=spec.identity(task),
        costs=_costs.setdefault(spec.path, ReadCosts()),
    ) as join:
        for batch in batches:
            yield from join.push(batch)
        yield from join.flush()
        metrics.add(join.finish())


def _task_of(spec: TaskSpec, encoder: KeyEncoder, batch: pa.RecordBatch) -> int | None:
    """Which task this is, told by its first row that has a key.

    Not by Spark's number of the partition: that is counted in the last frame of the stage, so behind the join
    a `coalesce` or a `union` changes it.
    """
    keys = [batch.column(position) for position in spec.shape.key_positions]
    valid = np.logical_and.reduce([validity(key) for key in keys])
    if not valid.any():
        return None
    at = int(valid.argmax())
    shards = encoder.shards([key.slice(at, 1) for key in keys], spec.shape.shards)
    return int(shards[0]) % spec.tasks


def _without_keys(spec: TaskSpec, batch: pa.RecordBatch, metrics: JoinMetrics) -> Iterator[pa.RecordBatch]:
    """Rows whose keys are null match nothing, whatever task this may be."""
    rows = batch.num_rows
    metrics.add(JoinMetrics(rows_in=rows, null_keys=rows, rows_unmatched=rows))
    if rows and spec.shape.kind.absent:
        metrics.rows_out += rows
        fields = spec.shape.value_fields
        columns = [*batch.columns, *(pa.nulls(rows, field.type) for field in fields)]
        names = spec.shape.output_schema.names
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _region_source(spec: TaskSpec, task: int) -> RegionSource:
    """Streaming queries keep the front stage for the next micro-batch."""
    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    if context is None or not query:
        return private_region
    # Spark starts all jobs of one run of a query in a group named after the run.
    owner = spec.owner(task, query_id=query, run_id=context.getLocalProperty("spark.jobGroup.id") or "")
    return lambda size_bytes: Region.of_query(owner, size_bytes)


_costs: dict[str, ReadCosts] = {}


def _with_metrics(schema: pa.Schema) -> pa.Schema:
    """Named by position like what came in: on the way back, too, Spark confuses columns of one name."""
    fields = [field.with_name(numbered_name(position)) for position, field in enumerate(schema)]
    return pa.schema([*fields, pa.field(METRICS_COLUMN, _METRICS_TYPE)])


def _data(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*rows.columns, pa.nulls(rows.num_rows, _METRICS_TYPE)], schema=schema)


def _carrier(metrics: JoinMetrics, schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.nulls(1, field.type) for field in list(schema)[:-1]]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array([metrics.to_bytes()], _METRICS_TYPE)], schema=schema
    )
