"""The algorithms, as choices of parts.

Reading this table is reading the family: where a name differs from another one, a part differs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from semistream import memory_split
from semistream.access_path.batched import BatchedIndexAccess
from semistream.access_path.cyclic_scan import CyclicScan
from semistream.access_path.oldest_key import OldestKey
from semistream.access_path.partition import PartitionAccess
from semistream.access_path.planned import ReadCosts, open_shards
from semistream.access_path.segments import DiskBuffer
from semistream.access_path.sweep import Deadline, Sweep
from semistream.core.arrow import expected_row_bytes
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import AccessPath, FrontStage, WaitingRoom
from semistream.core.exchange import Exchange, Reading
from semistream.core.keys import KeyEncoder
from semistream.core.loop import JoinShape, SemiStreamJoin
from semistream.core.metrics import JoinMetrics
from semistream.core.ordered import OrderedJoin, numbered, stream_columns
from semistream.core.rows import RowLayout
from semistream.core.shape import On, resolve_shape
from semistream.core.turns import Turns
from semistream.errors import ConfigError
from semistream.front_stage.density import least_bytes
from semistream.front_stage.page_columns import PageColumns
from semistream.front_stage.pages import PageCache
from semistream.front_stage.region import Region
from semistream.front_stage.registry import FRONT_STAGES, FrontStageRequest, make_front_stage
from semistream.master_table.contract import Table, TableShard
from semistream.memory_split import EXCHANGE_SHARE, MemorySplit, Shares, check_memory, shards_of_task
from semistream.waiting_room.batch_room import BatchRoom
from semistream.waiting_room.input_buffer import InputBuffer
from semistream.waiting_room.partitioned_room import PartitionedRoom
from semistream.waiting_room.queue_room import QueueRoom, waiting_row_bytes
from semistream.waiting_room.swept_room import SweptRoom, swept_parts

__all__ = [
    "ALGORITHMS",
    "On",
    "RunningJoin",
    "check_algorithm",
    "minimum_bytes",
    "minimum_task_bytes",
    "resolve_shape",
    "shards_of_task",
    "start_join",
]

PathName = Literal["planned", "batched", "chunks", "cycle", "oldest", "single", "partition"]
PAGES = "pages"  # the rivals' front stage: whole pages of R, which their access paths have open


@dataclass(frozen=True, kw_only=True)
class Composition:
    """A named algorithm: its front stage, its access path with the waiting room that goes with it, and how they
    share the memory."""

    front_stage: str
    path: PathName
    shares: Shares
    what: str


CACHE_SHARE = 0.15  # of the memory: best for CMESHJOIN in 000 Fig. 9a

_REST = Shares(front_stage=None, waiting_room=1 / 32, disk_buffer=False)
_SCAN = Shares(front_stage=0, waiting_room=None, disk_buffer=True)
_PAGE = Shares(front_stage=0, waiting_room=None, disk_buffer=True, buffer_pages=1)
_CACHED_SCAN = replace(_SCAN, front_stage=CACHE_SHARE)
_CACHED_PAGE = replace(_PAGE, front_stage=CACHE_SHARE)
_CACHED_SLOTS = replace(_CACHED_SCAN, caches_pages=True, has_slots=True)
_CACHED_LOOKUPS = replace(_CACHED_SCAN, caches_pages=True, disk_buffer=False, input_buffer=1 / 32)
_EXCHANGED_SCAN = replace(_SCAN, front_stage=None, exchanged=True)

ALGORITHMS = {
    "adaptive": Composition(
        front_stage="density", path="planned", shares=_REST, what="value per byte; lookups or scan by cost"
    ),
    "inlj": Composition(
        front_stage="none", path="single", shares=_PAGE, what="each row by itself, through the index"
    ),
    "meshjoin": Composition(
        front_stage="none", path="chunks", shares=_SCAN, what="R in a cycle, a chunk of rows per segment"
    ),
    "rmeshjoin": Composition(
        front_stage="none", path="cycle", shares=_SCAN, what="R in a cycle, rows as there is room"
    ),
    "hybridjoin": Composition(
        front_stage="none", path="oldest", shares=_PAGE, what="the page of the key that waited longest"
    ),
    "cinlj": Composition(
        front_stage="threshold", path="single", shares=_CACHED_PAGE, what="inlj behind a front stage"
    ),
    "cmeshjoin": Composition(
        front_stage="threshold", path="chunks", shares=_CACHED_SCAN, what="meshjoin behind a front stage"
    ),
    "chybridjoin": Composition(
        front_stage="threshold", path="oldest", shares=_CACHED_PAGE, what="hybridjoin behind a front stage"
    ),
    "ssbj": Composition(
        front_stage="balanced",
        path="chunks",
        shares=_EXCHANGED_SCAN,
        what="meshjoin; each key where it is cheaper",
    ),
    "ssij": Composition(
        front_stage=PAGES,
        path="batched",
        shares=_CACHED_LOOKUPS,
        what="a cache of pages; needed ones in order",
    ),
    "partitioned": Composition(
        front_stage=PAGES, path="partition", shares=_CACHED_SLOTS, what="a cache of pages; the fullest slot's"
    ),
}


def check_algorithm(algorithm: str) -> Composition:
    if algorithm not in ALGORITHMS:
        raise ConfigError(
            f"algorithm={algorithm!r} is unknown.", hint=f"choose one of: {', '.join(ALGORITHMS)}."
        )
    return ALGORITHMS[algorithm]


def minimum_task_bytes(
    table: Table,
    shards: list[int],
    algorithm: str = "adaptive",
    front_stage: str | None = None,
    *,
    ordered: bool = False,
) -> int:
    """The least a task that serves these shards can work with, to within 2 %."""
    shares = with_front_stage(check_algorithm(algorithm), front_stage).shares
    return memory_split.minimum_task_bytes(table, shards, shares.ordered() if ordered else shares)


def minimum_bytes(table: Table, tasks: int, algorithm: str = "adaptive") -> int:
    """The least `memory` for a join in that many tasks: all tasks get the same share."""
    return memory_split.minimum_bytes(table, tasks, check_algorithm(algorithm).shares)


def with_front_stage(chosen: Composition, name: str | None) -> Composition:
    """The same join behind another front stage: any stands before any access path."""
    if name is None or name == chosen.front_stage:
        return chosen
    if name not in FRONT_STAGES:
        raise ConfigError(
            f"front_stage={name!r} is unknown.", hint=f"choose one of: {', '.join(FRONT_STAGES)}."
        )
    shares = replace(chosen.shares, caches_pages=False)
    if name == "none":
        shares = replace(shares, front_stage=0, waiting_room=None, exchanged=False)
    elif name == "balanced":
        shares = replace(shares, front_stage=None, waiting_room=None, exchanged=True)
    elif shares.exchanged or shares.front_stage == 0:
        shares = replace(shares, front_stage=CACHE_SHARE, exchanged=False)
    return replace(chosen, front_stage=name, shares=shares)


def _never() -> bool:
    return False


RegionSource = Callable[[int], Region | None]


def private_region(size_bytes: int) -> Region | None:
    return Region.private(size_bytes)


class RunningJoin:
    """A composed join and what has to be closed after it. Use as a context manager.

    `push` batches, `flush` at the end; see `SemiStreamJoin`, which is `loop`, or `OrderedJoin`.
    """

    def __init__(
        self,
        loop: SemiStreamJoin | OrderedJoin,
        front: FrontStage,
        path: AccessPath,
        room: WaitingRoom,
        input_buffer: InputBuffer,
        is_due: Callable[[], bool],
    ) -> None:
        self.loop, self.front_stage, self.path, self.room = loop, front, path, room
        self._input_buffer, self.is_due = input_buffer, is_due
        self.metrics, self.budget = loop.metrics, loop.budget

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for looked_up in self._input_buffer.add(batch):
            yield from self.loop.push(looked_up)
            yield from self.serve_due()

    def serve_due(self) -> Iterator[pa.RecordBatch]:
        """Serves those who would else wait too long. To be called also while nothing comes in."""
        while self.is_due():
            yield from self.loop.step()
            yield from self.loop.settle()

    def flush(self) -> Iterator[pa.RecordBatch]:
        for looked_up in self._input_buffer.rest():
            yield from self.loop.push(looked_up)
        yield from self.loop.flush()

    def finish(self) -> JoinMetrics:
        """The final metrics; AssertionError if a row is unaccounted for."""
        metrics = self.metrics
        self.front_stage.report(metrics)
        metrics.cycles = self.path.cycles
        metrics.budget_peak_bytes, metrics.budget_bytes = self.budget.peak_bytes, self.budget.total_bytes
        self.loop.check_invariants()
        return metrics

    def close(self) -> None:
        self.front_stage.close()
        self.path.close()

    def __enter__(self) -> RunningJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_join(
    table: Table,
    shape: JoinShape,
    *,
    algorithm: str = "adaptive",
    front_stage: str | None = None,
    lookup_position: float = 1.0,
    max_delay_s: float | None = None,
    now: Callable[[], float] = time.monotonic,
    memory_bytes: int,
    shards: list[int] | None = None,
    region_source: RegionSource = private_region,
    identity: str = "",
    costs: ReadCosts | None = None,
    ordered: bool = False,
) -> RunningJoin:
    """Puts the parts of `algorithm` together over some shards (default: all) of the table; with another front stage
    than its own, if one is named. `lookup_position` is the place in the queue of the key that HYBRIDJOIN looks up, counted
    from where rows come in: 1 is the oldest, 0.15 best under load shedding. With `max_delay_s`, no row of `adaptive` waits
    longer than that by the clock `now`, as long as somebody calls `push` or `serve_due`.
    With `ordered`, output comes in the stream's order, at a cost in waiting: see `OrderedJoin`.

    Guarantee: all the join holds at any time fits `memory_bytes`. Where `region_source` has no memory for
    the front stage (another attempt of the same task uses it), the join runs without one.
    """
    chosen = with_front_stage(check_algorithm(algorithm), front_stage)
    if max_delay_s is not None and (chosen.path != "planned" or not max_delay_s > 0):
        raise ConfigError(
            f"max_delay_s={max_delay_s} with algorithm={algorithm!r}: only adaptive bounds how long a row waits.",
            hint="choose adaptive and more than 0 seconds, or leave max_delay_s out.",
        )
    if ordered:
        chosen = replace(chosen, shares=chosen.shares.ordered())
    mine = list(range(table.shards)) if shards is None else shards
    check_memory(chosen.shares, table, mine, memory_bytes)
    budget, metrics = MemoryBudget(memory_bytes), JoinMetrics()
    parts = _Parts(chosen, table, mine, budget, metrics, costs or ReadCosts())
    deadline = Deadline(delay_s=math.inf if max_delay_s is None else max_delay_s, now=now)
    path, room = parts.path(lookup_position, expected_row_bytes(shape.stream_schema), deadline)
    split = MemorySplit.of(chosen.shares, memory_bytes, budget.held_bytes, table.page_bytes)
    input_buffer = InputBuffer(budget, chosen.shares.input_buffer_bytes(memory_bytes))
    budget.reserve("output", split.output_bytes)
    ordering = budget.reserve("ordering", split.ordering_bytes)
    turns = Turns(stream_columns(shape)) if ordered else None
    joined = numbered(shape) if turns else shape
    front = parts.front_stage(joined, split, region_source, identity)
    parts.share_out(split)
    loop: SemiStreamJoin | OrderedJoin
    loop = join = SemiStreamJoin(
        joined,
        encoder=KeyEncoder([shape.output_schema.field(i).type for i in shape.key_positions]),
        front_stage=front,
        waiting_room=room,
        access_path=path,
        budget=budget,
        metrics=metrics,
        output_bytes=split.output_bytes,
        departures=turns,
    )
    if turns:
        loop = OrderedJoin(
            join, shape, turns=turns, size_bytes=ordering.size_bytes, output_bytes=split.output_bytes
        )
    is_due = path.is_due if isinstance(path, Sweep) else _never
    return RunningJoin(loop, front, path, room, input_buffer, is_due)


class _Parts:
    """Makes the parts of a composition for some shards of a table."""

    def __init__(
        self,
        chosen: Composition,
        table: Table,
        shards: list[int],
        budget: MemoryBudget,
        metrics: JoinMetrics,
        costs: ReadCosts,
    ) -> None:
        self._chosen, self._table, self._shards = chosen, table, shards
        self._budget, self._metrics, self._costs = budget, metrics, costs
        self._waiting_bytes = self._shared_bytes = 0  # known when everyone else has what he needs
        self._opened: Mapping[int, TableShard] = {}
        self._reading = Reading()
        self._exchange: Exchange | None = None

    def path(
        self, lookup_position: float, row_bytes: float, deadline: Deadline
    ) -> tuple[AccessPath, WaitingRoom]:
        table, budget, chosen = self._table, self._budget, self._chosen
        if chosen.path == "planned":
            opened = open_shards(table, self._shards, budget)
            parts = swept_parts(budget.total_bytes, row_bytes)
            swept = SweptRoom(budget, self._capacity, opened, parts=parts, now=deadline.now)
            sweep = Sweep(
                table,
                opened,
                swept,
                budget=budget,
                metrics=self._metrics,
                costs=self._costs,
                reading=self._reading,
                deadline=deadline,
            )
            return sweep, swept
        if chosen.path == "batched":
            self._opened = open_shards(table, self._shards, budget)
            batch_room = BatchRoom(budget, self._capacity)
            return BatchedIndexAccess(
                table, self._opened, batch_room, budget=budget, metrics=self._metrics
            ), batch_room
        pages = chosen.shares.pages(table, budget.total_bytes)
        if chosen.path == "partition":
            slots = PartitionedRoom(budget, self._capacity, fixed=table.key_encoder.fixed)
            buffer = DiskBuffer(
                table, self._shards, slots, buffer_pages=pages, budget=budget, metrics=self._metrics
            )
            self._opened = buffer.shards
            return PartitionAccess(buffer, slots, layout=table.layout, pages=pages), slots
        room = QueueRoom(
            budget,
            self._capacity,
            fixed=table.key_encoder.fixed,
            rows_max=1 if chosen.path == "single" else None,
            exchanged=chosen.shares.exchanged,
        )
        buffer = DiskBuffer(
            table, self._shards, room, buffer_pages=pages, budget=budget, metrics=self._metrics
        )
        if chosen.path in ("oldest", "single"):
            return OldestKey(buffer, layout=table.layout, pages=pages, position=lookup_position), room
        by_chunk = chosen.path == "chunks"
        return CyclicScan(buffer, layout=table.layout, segment_pages=pages, by_chunk=by_chunk), room

    def front_stage(
        self, shape: JoinShape, split: MemorySplit, region_source: RegionSource, identity: str
    ) -> FrontStage:
        table, values, name = self._table, self._table.value_schema, self._chosen.front_stage
        if name == PAGES:
            return PageCache(
                self._opened,
                budget=self._budget,
                size_bytes=split.front_stage_bytes,
                layout=PageColumns.of(table.layout, shape.value_positions),
                fixed=table.key_encoder.fixed,
            )
        cached = RowLayout(
            pa.schema([values.field(i) for i in shape.value_positions]), table.layout.end_bytes
        )
        region = region_source(split.front_stage_bytes) if name == "density" else None
        if region is not None and region.is_private and self._chosen.path == "planned":
            self._exchange = Exchange(
                split.front_stage_bytes + split.waiting_bytes,
                front_bytes=region.size_bytes,
                front_bytes_min=least_bytes(region.size_bytes),
                room_bytes_min=split.waiting_bytes,
                reading=self._reading,
            )
        request = FrontStageRequest(
            budget=self._budget,
            size_bytes=split.front_stage_bytes,
            layout=cached,
            fixed=table.key_encoder.fixed,
            row_bytes=table.bytes / max(table.rows, 1) * (len(cached.schema) + 1) / (len(values) + 1),
            decode_bytes=split.output_bytes,
            waiting_row_bytes=waiting_row_bytes(
                expected_row_bytes(shape.stream_schema), fixed=table.key_encoder.fixed
            ),
            one_by_one=self._chosen.path == "single",
            region=region,
            identity=identity,
            split=self._exchange,
        )
        return make_front_stage("none" if name == "density" and region is None else name, request)

    def share_out(self, split: MemorySplit) -> None:
        """All others have their memory: the rest is the waiting room's."""
        self._waiting_bytes = split.waiting_bytes
        self._shared_bytes = self._budget.left_bytes

    def _capacity(self) -> int:
        if self._exchange is not None:
            free = self._budget.left_bytes + self._budget.by_name()["waiting room"]
            return min(self._exchange.room_bytes, free)
        if not self._chosen.shares.exchanged:
            return self._waiting_bytes
        held = self._budget.by_name()
        free = int(self._shared_bytes * EXCHANGE_SHARE)
        return self._budget.left_bytes + held["waiting room"] - free
