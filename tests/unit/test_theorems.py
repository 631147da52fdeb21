"""What the papers prove of their joins, observed on ours: every read of R is recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.access_path.segments import DiskBuffer
from semistream.core.contracts import Matches
from semistream.core.loop import SemiStreamJoin
from semistream.joins import RunningJoin, minimum_task_bytes, resolve_shape, start_join
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.waiting_room import _queue_tables as queue
from semistream.waiting_room.queue_room import QueueRoom
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

ROWS = 20_000
BATCH = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    master = pa.table({"k": pa.array(range(ROWS)), "v": pa.array([f"{i:040d}" for i in range(ROWS)])})
    return build_store(master, tmp_path_factory.mktemp("theorems") / "s", key="k", shards=2, page_size=1024)


class Recorder:
    """Runs a join over a Zipf stream, and knows which pages each step read, and when each row came and left."""

    def __init__(
        self, table: MasterTable, algorithm: str, monkeypatch: pytest.MonkeyPatch, *, memory: int, skew: float
    ) -> None:
        self.reads: list[tuple[int, Any, int, int]] = []  # (step, shard, first page, page behind the last)
        self.came: dict[int, int] = {}
        self.stayed: list[int] = []  # steps, of every row that left
        self.waiting_max = 0
        self.queue_at_read: list[tuple[int, int]] = []  # who waits longest, and who came last
        self._join: RunningJoin
        recorder, read, emit = self, DiskBuffer.read, SemiStreamJoin._emit_matches

        def recording_read(buffer: DiskBuffer, shard: Any, first: int, stop: int) -> Iterator[Any]:
            recorder.reads.append((recorder.steps, shard, first, stop))
            recorder.queue_at_read.append(_ends_of_queue(buffer.room))
            recorder.waiting_max = max(recorder.waiting_max, buffer.room.count)
            return read(buffer, shard, first, stop)

        def recording_emit(join: SemiStreamJoin, matches: Matches) -> Iterator[pa.RecordBatch]:
            recorder._note(matches)
            return emit(join, matches)

        monkeypatch.setattr(DiskBuffer, "read", recording_read)
        monkeypatch.setattr(SemiStreamJoin, "_emit_matches", recording_emit)
        schema = pa.schema([("k", pa.int64()), ("came", pa.int64()), ("id", pa.int64())])
        shape = resolve_shape(schema, table, on="k", how="inner", columns=None, suffix=None)
        keys = ZipfKeys(ZipfConfig(keys=ROWS, exponent=skew))
        with start_join(table, shape, algorithm=algorithm, memory_bytes=memory) as join:
            self._join = join
            for number in range(4):
                drawn = keys.keys(batch=number, rows=BATCH)
                for at in range(0, BATCH, 100):
                    # Rows come with the step at which they were pushed, or a little before they got in.
                    came = np.full(100, self.steps)
                    ids = np.arange(number * BATCH + at, number * BATCH + at + 100)
                    batch = pa.RecordBatch.from_arrays(
                        [pa.array(drawn[at : at + 100]), pa.array(came), pa.array(ids)], schema=schema
                    )
                    for _ in join.push(batch):
                        pass
            for _ in join.flush():
                pass
            self.metrics = join.finish()

    @property
    def steps(self) -> int:
        return self._join.metrics.steps

    def _note(self, matches: Matches) -> None:
        waiting = matches.waiting
        for j in np.flatnonzero(matches.leaving).tolist():
            key = matches.first_key + j
            rows = waiting.rows.take(waiting.order[waiting.starts[key] : waiting.starts[key + 1]])
            self.stayed += (self.steps - np.asarray(rows.column(1))).tolist()


def _ends_of_queue(room: QueueRoom) -> tuple[int, int]:
    """The ids of the oldest and the newest row in Q."""
    ends = [int(room._row_at[room._state[end]]) - room.rows.origin for end in (queue.OLDEST, queue.NEWEST)]
    oldest, newest = room.rows.take(np.array(ends)).column(2).to_pylist()
    return oldest, newest


@pytest.mark.parametrize("algorithm", ["meshjoin", "rmeshjoin"])
def test_meshjoin_reads_every_segment_once_a_cycle_in_the_same_order(
    table: MasterTable, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = minimum_task_bytes(table, [0, 1], algorithm) + 50_000
    run = Recorder(table, algorithm, monkeypatch, memory=memory, skew=1.0)
    segments = [(id(shard), first, stop) for _, shard, first, stop in run.reads]
    cycle = list(dict.fromkeys(segments))
    assert sum(stop - first for _, first, stop in cycle) == table.pages
    assert len(run.reads) > 2 * len(cycle)
    for at, segment in enumerate(segments):
        assert segment == cycle[at % len(cycle)]
    assert run.metrics.random_reads <= 2 * (len(run.reads) // len(cycle) + 1)  # two shards: two files


def test_meshjoin_lets_every_row_go_after_exactly_k_steps(
    table: MasterTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = minimum_task_bytes(table, [0, 1], "rmeshjoin") + 3_000_000
    run = Recorder(table, "rmeshjoin", monkeypatch, memory=memory, skew=1.0)
    k = len({(id(shard), first) for _, shard, first, _ in run.reads})
    assert k > 3
    assert len(run.stayed) == 4 * BATCH
    # Nobody had to queue for a place here, so the step of arrival is the step at which the row came in.
    assert set(run.stayed) == {k}


@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_hybridjoin_theorem_1_no_page_twice_within_one_queue_length(
    table: MasterTable, skew: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a page is read again, everyone who waited when it was read before has left."""
    memory = minimum_task_bytes(table, [0, 1], "hybridjoin") + 100_000
    run = Recorder(table, "hybridjoin", monkeypatch, memory=memory, skew=skew)
    newest_then: dict[tuple[int, int], int] = {}
    again = 0
    for (_, shard, first, stop), (oldest, newest) in zip(run.reads, run.queue_at_read, strict=True):
        assert stop == first + 1
        page = (id(shard), first)
        if page in newest_then:
            again += 1
            assert oldest > newest_then[page]
        newest_then[page] = newest
    assert again > 10
    assert run.waiting_max > 500


def test_hybridjoin_theorem_2_at_most_one_read_per_stream_row(
    table: MasterTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = minimum_task_bytes(table, [0, 1], "hybridjoin")
    for skew in (0.0, 1.0):
        run = Recorder(table, "hybridjoin", monkeypatch, memory=memory, skew=skew)
        assert len(run.reads) <= run.metrics.rows_in
        monkeypatch.undo()


def test_hybridjoin_serves_a_page_for_everyone_who_waits_for_it(
    table: MasterTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With skew, many rows leave with one read; INLJ needs one read for each."""
    memory = minimum_task_bytes(table, [0, 1], "hybridjoin") + 300_000
    hybrid = Recorder(table, "hybridjoin", monkeypatch, memory=memory, skew=1.0)
    monkeypatch.undo()
    inlj = Recorder(table, "inlj", monkeypatch, memory=memory, skew=1.0)
    assert len(inlj.reads) == inlj.metrics.rows_in == 4 * BATCH
    assert len(hybrid.reads) < 0.5 * len(inlj.reads)


def test_pages_are_read_by_need(table: MasterTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """HYBRIDJOIN reads no page that nobody waits for; MESHJOIN reads all alike."""
    memory = minimum_task_bytes(table, [0, 1], "meshjoin")
    reads: dict[str, dict[tuple[int, int], int]] = {}
    for algorithm in ("hybridjoin", "meshjoin"):
        run = Recorder(table, algorithm, monkeypatch, memory=memory, skew=1.2)
        counts: dict[tuple[int, int], int] = defaultdict(int)
        for _, shard, first, stop in run.reads:
            for page in range(first, stop):
                counts[id(shard), page] += 1
        reads[algorithm] = counts
        monkeypatch.undo()
    assert len(reads["meshjoin"]) == table.pages
    assert len(reads["hybridjoin"]) < table.pages
    assert max(reads["meshjoin"].values()) - min(reads["meshjoin"].values()) <= 1
