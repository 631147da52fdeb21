"""Load shedding: nothing is lost, and what is shed after considering is what was dear."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracle import bag, joined

from semistream.errors import ConfigError, CorruptionError
from semistream.joins import RunningJoin, minimum_task_bytes, resolve_shape, start_join
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.shedding.shedding_join import STRATEGIES, SheddingJoin
from semistream.shedding.spill import Spill
from semistream.waiting_room import _queue_kernels as kernels
from semistream.waiting_room import _queue_tables as tables
from semistream.waiting_room.queue_room import QueueRoom
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

ROWS = 8000
MASTER = pa.table({"k": pa.array(range(ROWS)), "v": pa.array([f"{i:040d}" for i in range(ROWS)])})
# Frequent keys are neighbours: some pages are wanted far more often than others.
KEYS = ZipfKeys(ZipfConfig(keys=ROWS, exponent=1.0, scattered=False))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return build_store(MASTER, tmp_path_factory.mktemp("shedding") / "s", key="k", page_size=1024)


def stream(first: int, rows: int) -> pa.RecordBatch:
    keys = KEYS.keys(batch=first, rows=rows)
    return pa.RecordBatch.from_arrays(
        [pa.array(keys), pa.array(range(first * 10**6, first * 10**6 + rows), pa.int64())], names=["k", "id"]
    )


def start(table: MasterTable, algorithm: str = "hybridjoin", how: str = "left", **more: Any) -> RunningJoin:
    schema = pa.schema([("k", pa.int64()), ("id", pa.int64())])
    shape = resolve_shape(schema, table, on="k", how=how, columns=None, suffix=None)
    memory = minimum_task_bytes(table, [0], algorithm)
    return start_join(table, shape, algorithm=algorithm, memory_bytes=memory, **more)


def shedding(join: RunningJoin, spill: Spill, strategy: str) -> SheddingJoin:
    assert isinstance(join.room, QueueRoom)
    return SheddingJoin(join.loop, join.room, spill, strategy=strategy)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("algorithm", ["hybridjoin", "chybridjoin"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    arrivals=st.lists(st.sampled_from([0, 1, 40, 900, 3000]), min_size=1, max_size=8),
    how=st.sampled_from(["inner", "left", "anti"]),
    disk_bytes=st.sampled_from([1, 20_000, 1 << 30]),
)
def test_every_row_is_joined_once_however_often_it_was_shed(
    table: MasterTable, algorithm: str, strategy: str, arrivals: list[int], how: str, disk_bytes: int
) -> None:
    spill = Spill(bytes_max=disk_bytes)
    found: list[pa.RecordBatch] = []
    batches = [stream(number, rows) for number, rows in enumerate(arrivals)]
    with start(table, algorithm, how) as join:
        run = shedding(join, spill, strategy)
        for batch in batches:
            run.offer(batch)
            found += run.iterate()
            join.metrics.check_invariants()
            assert join.metrics.rows_shed == spill.rows
            assert spill.bytes <= disk_bytes
        found += run.drain()
        metrics = join.finish()
    spill.close()
    whole = pa.Table.from_batches(batches)
    assert bag(found) == joined(whole, MASTER, stream_key=["k"], master_key=["k"], how=how)
    assert metrics.rows_in == sum(arrivals)
    assert (metrics.rows_waiting, metrics.rows_shed, run.pending_rows) == (0, 0, 0)


def served_per_read(table: MasterTable, strategy: str, position: float, iterations: int = 300) -> float:
    """Rows joined for each read of R while twice as many arrive as can be joined."""
    spill = Spill()
    with start(table, lookup_position=position) as join:
        run = shedding(join, spill, strategy)
        room = join.room
        assert isinstance(room, QueueRoom)
        run.offer(stream(0, 3000))
        per_iteration, gone = [], 0
        for number in range(1, iterations + 1):
            per_iteration.append(join.metrics.rows_matched - gone)
            gone = join.metrics.rows_matched
            run.offer(stream(number, 3 * max(1, per_iteration[-1])))
            for _ in run.iterate():
                pass
        assert run.shed_rows_total > 0
    spill.close()
    return float(np.mean(per_iteration[iterations // 2 :]))


def test_theorem_1_considering_serves_more_rows_per_read_than_keep(table: MasterTable) -> None:
    considering, keep = (served_per_read(table, strategy, 0.15) for strategy in ("considering", "keep"))
    assert considering > 1.1 * keep


def test_a_lookup_near_the_queues_start_serves_more_than_one_at_its_end(table: MasterTable) -> None:
    tuned, untuned = (served_per_read(table, "considering", position) for position in (0.15, 1.0))
    assert tuned > 1.1 * untuned


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_under_overload_the_waiting_room_stays_full(table: MasterTable, strategy: str) -> None:
    """Although now and then a read of R serves a single row."""
    spill = Spill()
    with start(table, "chybridjoin") as join:
        run = shedding(join, spill, strategy)
        run.offer(stream(0, 3000))
        held = []
        for number in range(1, 400):
            run.offer(stream(number, 60))
            for _ in run.iterate():
                pass
            held.append(join.room.count)
        assert run.shed_rows_total > 0
        assert min(held[20:]) > 0.7 * max(held)
    spill.close()


def test_lemma_1_the_probability_of_their_pages_falls_towards_those_who_waited_longest(
    table: MasterTable,
) -> None:
    """Whoever has been passed over by many reads wants a page that few want."""
    with start(table) as join:
        room = join.room
        assert isinstance(room, QueueRoom)
        means = []
        for number in range(40):
            for _ in join.push(stream(number, 500)):
                pass
            if number >= 20:
                means.append(_page_probability_by_quarter(room))
        for _ in join.flush():
            pass
    newest_to_oldest = np.mean(means, axis=0)
    assert (np.diff(newest_to_oldest) < 0).all(), newest_to_oldest


def _page_probability_by_quarter(room: QueueRoom) -> np.ndarray:
    """The mean stream probability of the pages that waiting rows want, from the newest quarter to the oldest."""
    rows = np.empty(room.count, np.int64)
    kernels.newest(room._where, rows)
    keys = room._words[room._links[rows, tables.KEY]].astype(np.int64) - (1 << 62) - (1 << 62)
    page = keys // 14
    probability = KEYS.probabilities(np.arange(ROWS))
    by_page = np.add.reduceat(probability, np.arange(0, ROWS, 14))
    return np.array([part.mean() for part in np.array_split(by_page[page], 4)])


def test_the_disk_is_bounded_and_told_when_it_is_full(table: MasterTable) -> None:
    spill = Spill(bytes_max=5000)
    with start(table) as join:
        run = shedding(join, spill, "considering")
        for number in range(30):
            run.offer(stream(number, 500))
            for _ in run.iterate():
                pass
            assert spill.bytes <= 5000
        assert run.refused_rows_total > 0
        assert run.backlog_rows > 0
        for _ in run.drain():
            pass
    spill.close()


def test_rows_on_disk_are_checked_before_they_are_believed(tmp_path: Path) -> None:
    spill = Spill(tmp_path)
    spill.put(stream(0, 100))
    spill.put(stream(1, 50))
    assert (spill.rows, spill.fits(stream(2, 10))) == (150, True)
    assert Counter(pa.Table.from_batches(spill.take(1))["id"].to_pylist()) == Counter(range(100))
    file = next(tmp_path.glob("*/*.arrow"))
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptionError, match="has changed") as caught:
        spill.take(1)
    assert "Hint:" in str(caught.value)
    spill.close()
    assert not list(tmp_path.iterdir())


def test_an_unknown_strategy_is_told_the_known_ones(table: MasterTable) -> None:
    with start(table) as join, pytest.raises(ConfigError, match="drop"):
        shedding(join, Spill(), "drop")
