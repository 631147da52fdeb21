"""Front stage and waiting room of the default algorithm give each other memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.access_path.sweep import _Recent
from semistream.core.budget import MemoryBudget
from semistream.core.contracts import MISS
from semistream.core.exchange import Exchange, Reading
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.cost_model.clock import VirtualClock
from semistream.cost_model.profiles import HDD2012, NVME, DeviceProfile
from semistream.errors import ConfigError
from semistream.front_stage.density import DensityFrontStage, least_bytes
from semistream.front_stage.region import Region
from semistream.joins import resolve_shape, start_join
from semistream.simulation.config import SimulationConfig
from semistream.simulation.points import Point
from semistream.simulation.run import DeviceCosts, run
from semistream.testing.fakes import RowsInMemory, encode_keys, waiting_for

SIZE, ROOM = 1 << 17, 1 << 12
KEYS = 6000
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def exchange(reading: Reading) -> Exchange:
    return Exchange(
        SIZE + ROOM,
        front_bytes=SIZE,
        front_bytes_min=least_bytes(SIZE),
        room_bytes_min=ROOM,
        reading=reading,
    )


class Stage:
    """A front stage under an exchange, with enough rows to fill it."""

    def __init__(self, split: Exchange, budget: MemoryBudget) -> None:
        self.master = RowsInMemory(SCHEMA, {n: [(n, "x" * 80)] for n in range(KEYS)})
        self.front = DensityFrontStage(
            Region.private(SIZE),
            layout=RowLayout(SCHEMA, 4),
            fixed=True,
            identity="exchange",
            row_bytes=110.0,
            decode_bytes=1 << 20,
            reservation=budget.reserve("front stage", SIZE),
            split=split,
        )

    def drain(self, numbers: list[int]) -> int:
        """Returns how many were hits."""
        entries = self.front.probe(encode_keys(numbers, fixed=True), 0, len(numbers) + 1).entries
        missed = [n for n, entry in zip(numbers, entries.tolist(), strict=True) if entry == MISS]
        waiting, ordered = waiting_for({n: missed.count(n) for n in set(missed)}, fixed=True)
        for matches in self.master.matches(waiting, ordered, 10_000):
            self.front.admit(matches, self.master)
        self.front.adapt(0)
        self.front.check_invariants()
        return len(numbers) - len(missed)


def test_it_gives_memory_to_a_room_that_scans_and_takes_it_back_from_one_that_looks_up() -> None:
    reading, budget = Reading(row_seconds=1e-3, elasticity=1.0), MemoryBudget(SIZE + ROOM)
    split = exchange(reading)
    stage = Stage(split, budget)
    random = np.random.default_rng(5)
    for _ in range(60):  # all keys alike: what is cached saves next to nothing
        stage.drain(random.integers(0, KEYS, 200).tolist())
        assert budget.held_bytes <= SIZE
    assert budget.held_bytes == split.front_bytes == pytest.approx(least_bytes(SIZE), abs=8)
    assert split.room_bytes == SIZE + ROOM - split.front_bytes
    reading.elasticity = 0.0
    for _ in range(60):
        stage.drain(random.integers(0, KEYS, 200).tolist())
    assert budget.held_bytes == SIZE
    assert stage.drain(random.integers(0, KEYS, 200).tolist()) > 10


def test_it_takes_no_memory_that_the_other_side_still_uses() -> None:
    reading, budget = Reading(row_seconds=1e-3, elasticity=1.0), MemoryBudget(SIZE + ROOM)
    split = exchange(reading)
    stage = Stage(split, budget)
    for _ in range(30):
        stage.drain(list(range(100)))
        reading.elasticity = 1.0 if split.front_bytes > SIZE // 2 else 0.0
        if split.front_bytes <= SIZE // 2:
            break
    room = budget.reserve("waiting room", budget.left_bytes - 400)
    for _ in range(30):
        stage.drain(list(range(100)))
    assert split.front_bytes == SIZE
    assert budget.left_bytes >= 0
    room.resize(0)
    stage.drain(list(range(100)))
    assert budget.held_bytes == SIZE


def test_the_line_is_the_cache_inequality_where_r_is_scanned() -> None:
    """Away from it the line moves to where hits per byte times bytes of the room are the share that misses."""
    split = exchange(Reading(row_seconds=1.0, elasticity=1.0))
    for _ in range(100):  # as if a Zipf law: the more is cached, the less is the last byte worth
        split.weigh(hits_per_byte=lambda: 0.1 / split.front_bytes, hit_ratio=0.6)
    # 0.1 room / front = 0.4: a fifth of all is the front stage's
    assert split.front_bytes / (SIZE + ROOM) == pytest.approx(0.2, abs=0.06)


def test_elasticity_by_hand() -> None:
    recent = _Recent()
    assert recent.elasticity == 0.0
    for rows, expected in ((1000, 1.0 - 1.0 / np.expm1(1.0)), (20, 0.01), (8000, 0.997)):
        pages = 1000 * -np.expm1(-rows / 1000)
        recent = _Recent()
        recent.add(rows, round(pages), 0, 1.0, memory=0.5)
        assert recent.elasticity == pytest.approx(expected, abs=0.02)
    recent.add(10, 1000, 1000, 1.0, memory=0.0)
    assert recent.elasticity == 1.0


@pytest.mark.parametrize("skew", [0.0, 1.0])
@pytest.mark.parametrize("device", [HDD2012, NVME], ids=lambda device: device.name)
def test_adaptive_is_ahead_of_scanning_and_of_looking_up(skew: float, device: DeviceProfile) -> None:
    point = Point(table_rows=60_000, skew=skew, memory_share=0.1)
    rates = {}
    for name in ("adaptive", "meshjoin", "hybridjoin"):
        plan = SimulationConfig(
            algorithm=name,
            memory_bytes=point.memory_bytes,
            device=device,
            warm_up_rows=150_000 if name == "adaptive" else 20_000,
            intervals=3,
            interval_rows=30_000,
            batch_rows=1024,
        )
        report = run(point.table, point.stream, plan)
        rates[name] = report.rows_per_s
        assert report.final.budget_peak_bytes <= point.memory_bytes
    assert rates["adaptive"] > max(rates["meshjoin"], rates["hybridjoin"])


@pytest.mark.parametrize("rows_per_push", [1, 200])
def test_no_row_waits_longer_than_it_may(rows_per_push: int) -> None:
    point = Point(table_rows=60_000, skew=0.5, memory_share=0.5)
    table = point.table
    shape = resolve_shape(
        point.stream.schema, table, on={"key": "key"}, how="inner", columns=None, suffix="_r"
    )
    times = [VirtualClock(device=HDD2012, work=JoinMetrics())]
    with start_join(
        table,
        shape,
        memory_bytes=point.memory_bytes,
        costs=DeviceCosts(HDD2012, table.page_bytes),
        max_delay_s=20.0,
        now=lambda: times[0].now_s(),
    ) as join:
        times[0] = VirtualClock(device=HDD2012, work=join.metrics)
        path: Any = join.path
        waiting_max = 0
        for number, batch in enumerate(point.stream.batches(rows_per_push)):
            for _ in join.push(batch):
                pass
            waiting_max = max(waiting_max, join.metrics.rows_waiting)
            times[0].idle(0.2)
            for _ in join.serve_due():
                pass
            if number == 400:
                break
        assert 10 < path.longest_wait_s <= 20.0
        assert waiting_max > 20
        for _ in join.flush():
            pass
        join.finish()


def test_who_else_does_not_bound_waiting_says_so() -> None:
    point = Point(table_rows=1000, skew=0.5, memory_share=1.0)
    shape = resolve_shape(point.stream.schema, point.table, on="key", how="inner", columns=None, suffix="_r")
    with pytest.raises(ConfigError, match="only adaptive"):
        start_join(point.table, shape, algorithm="meshjoin", memory_bytes=1 << 22, max_delay_s=1.0)
    with pytest.raises(ConfigError, match="more than 0"):
        start_join(point.table, shape, memory_bytes=1 << 22, max_delay_s=0.0)
