"""The algorithms, as choices of parts; and how a byte budget is split among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from semistream.access_path.planned import PlannedAccess, ReadCosts, row_address_bytes
from semistream.core.budget import MemoryBudget, format_bytes
from semistream.core.contracts import JOIN_KINDS, FrontStage
from semistream.core.keys import KeyEncoder, canonical_type
from semistream.core.loop import JoinShape, SemiStreamJoin
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.errors import BudgetError, ConfigError, SchemaError
from semistream.front_stage.density import SIZE_MAX_BYTES, SIZE_MIN_BYTES, DensityFrontStage
from semistream.front_stage.none import NoFrontStage
from semistream.front_stage.region import Region
from semistream.master_table.files import read_buffer_bytes
from semistream.master_table.page_store import MasterTable
from semistream.waiting_room.batch_room import BatchRoom

ALGORITHMS = {
    "adaptive": "density front stage, waiting room of a batch, planned access",
}

WAITING_SHARE = 1 / 32
OUTPUT_SHARE = 1 / 48
WAITING_BYTES_MIN = 128 << 10
WAITING_BYTES_MAX = 64 << 20
OUTPUT_BYTES_MIN = 64 << 10
OUTPUT_BYTES_MAX = 2 << 20

On = str | list[str] | Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class MemorySplit:
    """How one task's share of `memory` is used. The front stage gets what the others leave."""

    total_bytes: int
    waiting_bytes: int
    output_bytes: int
    front_stage_bytes: int

    @classmethod
    def of(cls, total_bytes: int, path_bytes: int) -> MemorySplit:
        """What is left beside the access path. The front stage's part is below SIZE_MIN_BYTES, or negative, if
        the total is too little."""
        waiting = max(WAITING_BYTES_MIN, min(WAITING_BYTES_MAX, int(total_bytes * WAITING_SHARE)))
        output = max(OUTPUT_BYTES_MIN, min(OUTPUT_BYTES_MAX, int(total_bytes * OUTPUT_SHARE)))
        front = min(total_bytes - path_bytes - waiting - output, SIZE_MAX_BYTES) // 8 * 8
        return cls(
            total_bytes=total_bytes, waiting_bytes=waiting, output_bytes=output, front_stage_bytes=front
        )


def path_bytes_max(table: MasterTable, shards: list[int], total_bytes: int) -> int:
    """The most that the access path takes; a task that can map its files needs no page buffer."""
    buffer = read_buffer_bytes(table.page_bytes)
    return table.fence_bytes(shards) + buffer + row_address_bytes(total_bytes)


def minimum_task_bytes(table: MasterTable, shards: list[int]) -> int:
    """The least a task that serves these shards can work with, to within 2 %."""
    enough = WAITING_BYTES_MIN + OUTPUT_BYTES_MIN + SIZE_MIN_BYTES
    while MemorySplit.of(enough, path_bytes_max(table, shards, enough)).front_stage_bytes < SIZE_MIN_BYTES:
        enough += enough // 64
    return enough


def shards_of_task(task: int, tasks: int, shards: int) -> list[int]:
    """A task serves every shard s with s mod tasks = its number."""
    return list(range(task, shards, tasks))


def minimum_bytes(table: MasterTable, tasks: int) -> int:
    """The least `memory` for a join in that many tasks: all tasks get the same share."""
    tasks = min(tasks, table.shards)
    return tasks * max(
        minimum_task_bytes(table, shards_of_task(task, tasks, table.shards)) for task in range(tasks)
    )


def resolve_shape(
    stream: pa.Schema,
    table: MasterTable,
    *,
    on: On,
    how: str,
    columns: str | list[str] | None,
    suffix: str | None,
) -> JoinShape:
    """Checks everything about the two sides that can be checked before a row flows, and fixes the output.

    SchemaError or ConfigError with what is wrong.
    """
    kind = JOIN_KINDS.get(how)
    if kind is None:
        raise ConfigError(f"how={how!r} is not a join.", hint=f"choose one of {', '.join(JOIN_KINDS)}.")
    key_positions = _resolve_keys(stream, table, on)
    values = table.value_schema
    if not kind.needs_rows:
        if columns:
            raise ConfigError(
                f"a {how} join puts out the stream's columns only; columns={columns} were asked for.",
                hint="leave columns= out, or use how='inner' or 'left'.",
            )
        chosen: list[str] = []
    else:
        chosen = values.names if columns is None else [columns] if isinstance(columns, str) else list(columns)
        for name in chosen:
            if name not in values.names:
                what = "a key column, which the stream has already" if name in table.key else "unknown"
                raise SchemaError(
                    f"columns= names '{name}', which is {what}.",
                    hint=f"the table's other columns are: {', '.join(values.names) or '(none)'}.",
                )
    fields = _output_fields(stream, [values.field(name) for name in chosen], suffix)
    return JoinShape(
        kind=kind,
        key_positions=key_positions,
        value_positions=tuple(values.names.index(name) for name in chosen),
        output_schema=pa.schema([*stream, *fields]),
        shards=table.shards,
    )


def _resolve_keys(stream: pa.Schema, table: MasterTable, on: On) -> tuple[int, ...]:
    """The positions of the stream's key columns, in the order of the table's key."""
    if isinstance(on, Mapping):
        pairs = dict(on)
    else:
        names = [on] if isinstance(on, str) else list(on)
        if len(set(names)) != len(names):
            raise SchemaError(f"on={names} names a column twice.", hint="name each key column once.")
        pairs = {name: name for name in names}
    by_master = {master: name for name, master in pairs.items()}
    if set(by_master) != set(table.key) or len(by_master) != len(pairs):
        raise SchemaError(
            f"on= names the table's column(s) {', '.join(pairs.values()) or '(none)'}, but its key is "
            f"{', '.join(table.key)}.",
            hint=f'map stream columns to the key, e.g. on={{"customer_id": "{table.key[0]}"}}, or prepare the '
            "table with another key=.",
        )
    positions = []
    for master in table.key:
        name = by_master[master]
        if name not in stream.names:
            raise SchemaError(
                f"the stream has no column '{name}'.", hint=f"it has: {', '.join(stream.names)}."
            )
        found, wanted = stream.field(name).type, table.schema.field(master).type
        if canonical_type(found) != canonical_type(wanted):
            raise SchemaError(
                f"the stream's '{name}' is {found}, the table's '{master}' is {wanted}.",
                hint="cast one side; integers of any width fit each other, other types must be equal.",
            )
        positions.append(stream.names.index(name))
    return tuple(positions)


def _output_fields(stream: pa.Schema, values: list[pa.Field], suffix: str | None) -> list[pa.Field]:
    taken = {name.lower() for name in stream.names}
    fields = []
    for field in values:
        name = field.name
        if name.lower() in taken and suffix:
            name += suffix
        if name.lower() in taken:
            raise SchemaError(
                f"both sides have a column '{name}'.",
                hint='choose the table\'s columns with columns=[...], or rename the clashing ones with suffix="_m".',
            )
        taken.add(name.lower())
        fields.append(field.with_name(name).with_nullable(True))
    return fields


RegionSource = Callable[[int], Region | None]


def private_region(size_bytes: int) -> Region | None:
    return Region.private(size_bytes)


class RunningJoin:
    """A composed join and what has to be closed after it. Use as a context manager.

    `push` batches, `flush` at the end; see `SemiStreamJoin`.
    """

    def __init__(self, join: SemiStreamJoin, front: FrontStage, path: PlannedAccess) -> None:
        self._join, self._front, self._path = join, front, path
        self.metrics, self.budget = join.metrics, join.budget

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        return self._join.push(batch)

    def flush(self) -> Iterator[pa.RecordBatch]:
        return self._join.flush()

    def finish(self) -> JoinMetrics:
        """The final metrics; AssertionError if a row is unaccounted for."""
        metrics = self.metrics
        self._front.report(metrics)
        metrics.budget_peak_bytes, metrics.budget_bytes = self.budget.peak_bytes, self.budget.total_bytes
        self._join.check_invariants()
        return metrics

    def close(self) -> None:
        self._front.close()
        self._path.close()

    def __enter__(self) -> RunningJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_join(
    table: MasterTable,
    shape: JoinShape,
    *,
    algorithm: str = "adaptive",
    memory_bytes: int,
    shards: list[int] | None = None,
    region_source: RegionSource = private_region,
    identity: str = "",
    costs: ReadCosts | None = None,
) -> RunningJoin:
    """Puts the parts of `algorithm` together over some shards (default: all) of the table.

    Guarantee: all the join holds at any time fits `memory_bytes`. Where `region_source` has no memory for
    the front stage (another attempt of the same task uses it), the join runs without one.
    """
    check_algorithm(algorithm)
    mine = list(range(table.shards)) if shards is None else shards
    most = MemorySplit.of(memory_bytes, path_bytes_max(table, mine, memory_bytes))
    if most.front_stage_bytes < SIZE_MIN_BYTES:
        raise BudgetError(
            f"{format_bytes(memory_bytes)} are too little for {len(mine)} shard(s) of this table; the minimum is "
            f"{format_bytes(minimum_task_bytes(table, mine))} ({minimum_task_bytes(table, mine):,} bytes).",
            hint="raise the memory.",
        )
    budget, metrics = MemoryBudget(memory_bytes), JoinMetrics()
    path = PlannedAccess(table, mine, budget=budget, metrics=metrics, costs=costs or ReadCosts())
    split = MemorySplit.of(memory_bytes, budget.held_bytes)
    values = table.value_schema
    cached = RowLayout(pa.schema([values.field(i) for i in shape.value_positions]), table.layout.end_bytes)
    region = region_source(split.front_stage_bytes)
    row_bytes = table.bytes / max(table.rows, 1) * (len(cached.schema) + 1) / (len(values) + 1)
    front: DensityFrontStage | NoFrontStage
    if region is None:
        front = NoFrontStage(cached)
    else:
        budget.reserve("front stage", region.size_bytes)
        front = DensityFrontStage(
            region,
            layout=cached,
            fixed=table.key_encoder.fixed,
            identity=identity,
            row_bytes=row_bytes,
            decode_bytes=split.output_bytes,
        )
    budget.reserve("output", split.output_bytes)
    join = SemiStreamJoin(
        shape,
        encoder=KeyEncoder([shape.output_schema.field(i).type for i in shape.key_positions]),
        front_stage=front,
        waiting_room=BatchRoom(budget, split.waiting_bytes),
        access_path=path,
        budget=budget,
        metrics=metrics,
        output_bytes=split.output_bytes,
    )
    return RunningJoin(join, front, path)


def check_algorithm(algorithm: str) -> None:
    if algorithm not in ALGORITHMS:
        raise ConfigError(
            f"algorithm={algorithm!r} is unknown.", hint=f"choose one of: {', '.join(ALGORITHMS)}."
        )
