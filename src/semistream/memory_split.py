"""How one task's share of `memory` is used by the parts of a join, and the least that is enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

from semistream.access_path.planned import row_address_bytes
from semistream.access_path.segments import ADDRESS_BYTES, row_addresses
from semistream.core.budget import format_bytes
from semistream.errors import BudgetError
from semistream.front_stage.density import SIZE_MAX_BYTES, SIZE_MIN_BYTES
from semistream.front_stage.pages import page_cache_bytes
from semistream.master_table.contract import Table
from semistream.master_table.files import read_buffer_bytes
from semistream.waiting_room.partitioned_room import SLOT_BYTES

OUTPUT_SHARE = 1 / 48
OUTPUT_BYTES_MIN = 64 << 10
OUTPUT_BYTES_MAX = 2 << 20
WAITING_BYTES_MIN = 128 << 10
WAITING_BYTES_MAX = 64 << 20
EXCHANGE_SHARE = 1 / 16  # of what is exchanged stays free, for the side that grows
DISK_BUFFER_SHARE = 1 / 32
DISK_BUFFER_BYTES_MAX = 4 << 20
ORDERING_SHARE = 1 / 16
ORDERING_SHARE_OF_QUEUES = 1 / 2  # many wait, so the output of many is held
ORDERING_OUTPUTS_MIN = 2  # batches of output that fit, if little else does


@dataclass(frozen=True, kw_only=True)
class Shares:
    """What a composition wants. The front stage gets its share (None: all that the others leave; 0: there is none),
    and the waiting room its own (None: all that the others leave). With `exchanged`, front stage and waiting room share
    what the others leave, and give it to each other while they run."""

    front_stage: float | None
    waiting_room: float | None
    disk_buffer: bool
    buffer_pages: int | None = None
    exchanged: bool = False
    input_buffer: float = 0.0  # for rows that nobody has looked at yet
    caches_pages: bool = False
    has_slots: bool = False  # one for every partition of R
    ordering: float = 0.0  # for output before its turn

    def front_stage_bytes_min(self, table: Table, shards: list[int]) -> int:
        if self.caches_pages:
            return page_cache_bytes(table.pages, table.page_bytes, slots=1, shards=len(shards))
        return 0 if self.front_stage == 0 else SIZE_MIN_BYTES

    def input_buffer_bytes(self, total_bytes: int) -> int:
        return int(total_bytes * self.input_buffer)

    def ordering_bytes(self, total_bytes: int, output_bytes: int) -> int:
        least = ORDERING_OUTPUTS_MIN * output_bytes
        return max(int(total_bytes * self.ordering), least) if self.ordering else 0

    def ordered(self) -> Shares:
        """The same, with output in the order of the stream."""
        queues = self.waiting_room is None
        return replace(self, ordering=ORDERING_SHARE_OF_QUEUES if queues else ORDERING_SHARE)

    def pages(self, table: Table, total_bytes: int) -> int:
        """b of the papers, in pages."""
        if self.buffer_pages is not None:
            return self.buffer_pages
        return max(1, int(min(total_bytes * DISK_BUFFER_SHARE, DISK_BUFFER_BYTES_MAX)) // table.page_bytes)


@dataclass(frozen=True, kw_only=True)
class MemorySplit:
    total_bytes: int
    waiting_bytes: int
    output_bytes: int
    front_stage_bytes: int
    ordering_bytes: int = 0

    @classmethod
    def of(cls, shares: Shares, total_bytes: int, path_bytes: int, page_bytes: int) -> MemorySplit:
        """What is left beside the access path. An output batch may be a single row as wide as a page. Parts are too small, or negative, if the total is too little."""
        output = _clamp(
            total_bytes * OUTPUT_SHARE, max(OUTPUT_BYTES_MIN, page_bytes), max(OUTPUT_BYTES_MAX, page_bytes)
        )
        left = total_bytes - path_bytes - output - shares.input_buffer_bytes(total_bytes)
        ordering = shares.ordering_bytes(total_bytes, output)
        left -= ordering
        if shares.exchanged:
            front = waiting = left
        elif shares.front_stage is None:
            share = shares.waiting_room or 0.0
            waiting = _clamp(total_bytes * share, WAITING_BYTES_MIN, WAITING_BYTES_MAX)
            front = min(left - waiting, SIZE_MAX_BYTES)
        else:
            front = int(min(total_bytes * shares.front_stage, SIZE_MAX_BYTES))
            if shares.front_stage:
                front = max(front, SIZE_MIN_BYTES)
            waiting = left - front
        return cls(
            total_bytes=total_bytes,
            waiting_bytes=waiting,
            output_bytes=output,
            front_stage_bytes=front // 8 * 8,
            ordering_bytes=ordering,
        )

    def is_enough(self, front_stage_bytes_min: int) -> bool:
        return self.front_stage_bytes >= front_stage_bytes_min and self.waiting_bytes >= WAITING_BYTES_MIN


def path_bytes_max(shares: Shares, table: Table, shards: list[int], total_bytes: int) -> int:
    """The most that the access path takes; a task that can map its files needs no page buffer."""
    buffer = read_buffer_bytes(table.page_bytes)
    if shares.disk_buffer:
        addresses = ADDRESS_BYTES * row_addresses(table.page_bytes, total_bytes)
        pages = shares.pages(table, total_bytes)
        buffer = max(buffer, pages * table.page_bytes)
        addresses += SLOT_BYTES * (table.pages // pages + len(shards)) if shares.has_slots else 0
    else:
        addresses = row_address_bytes(total_bytes)
    return table.fence_bytes(shards) + buffer + addresses


def minimum_task_bytes(table: Table, shards: list[int], shares: Shares) -> int:
    """The least a task that serves these shards can work with, to within 2 %."""
    enough = WAITING_BYTES_MIN + OUTPUT_BYTES_MIN + SIZE_MIN_BYTES
    while True:
        split = MemorySplit.of(
            shares, enough, path_bytes_max(shares, table, shards, enough), table.page_bytes
        )
        if split.is_enough(shares.front_stage_bytes_min(table, shards)):
            return enough
        enough += enough // 64


def shards_of_task(task: int, tasks: int, shards: int) -> list[int]:
    """A task serves every shard s with s mod tasks = its number."""
    return list(range(task, shards, tasks))


def minimum_bytes(table: Table, tasks: int, shares: Shares) -> int:
    """The least `memory` for a join in that many tasks: all tasks get the same share."""
    tasks = min(tasks, table.shards)
    return tasks * max(
        minimum_task_bytes(table, shards_of_task(task, tasks, table.shards), shares) for task in range(tasks)
    )


def check_memory(shares: Shares, table: Table, shards: list[int], memory_bytes: int) -> None:
    """BudgetError that says the minimum, if it is too little."""
    split = MemorySplit.of(
        shares, memory_bytes, path_bytes_max(shares, table, shards, memory_bytes), table.page_bytes
    )
    if not split.is_enough(shares.front_stage_bytes_min(table, shards)):
        least = minimum_task_bytes(table, shards, shares)
        raise BudgetError(
            f"{format_bytes(memory_bytes)} are too little for {len(shards)} shard(s) of this table; the minimum is "
            f"{format_bytes(least)} ({least:,} bytes).",
            hint="raise the memory.",
        )


def _clamp(wanted: float, least: int, most: int) -> int:
    return max(least, min(most, int(wanted)))
