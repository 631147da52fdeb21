"""The density front stage: what it keeps, what it remembers, and when it must not believe what it finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import I64, MISS, Answers
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.front_stage.density import SIZE_MIN_BYTES, DensityFrontStage
from semistream.front_stage.region import Region
from semistream.testing.fakes import RowsInMemory, encode_keys, waiting_for

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def make(
    region: Region,
    *,
    identity: str = "one",
    fixed: bool = True,
    row_bytes: float = 120,
    decode_bytes: int = 1 << 20,
) -> DensityFrontStage:
    return DensityFrontStage(
        region,
        layout=RowLayout(SCHEMA, 2),
        fixed=fixed,
        identity=identity,
        row_bytes=row_bytes,
        decode_bytes=decode_bytes,
        reservation=MemoryBudget(region.size_bytes).reserve("front stage", region.size_bytes),
    )


def shared(path: Path, size_bytes: int = SIZE_MIN_BYTES) -> Region:
    region = Region.shared(path, size_bytes)
    assert region is not None
    return region


def report(stage: DensityFrontStage) -> JoinMetrics:
    metrics = JoinMetrics()
    stage.report(metrics)
    return metrics


def probe(stage: DensityFrontStage, numbers: list[int | None], *, fixed: bool = True) -> Answers:
    return stage.probe(encode_keys(numbers, fixed=fixed), 0, len(numbers) + 1)


def entries_of(stage: DensityFrontStage, numbers: list[int], *, fixed: bool = True) -> I64:
    return probe(stage, list(numbers), fixed=fixed).entries


class Drainer:
    """Probes, lets the misses wait, matches them, and adapts, as the loop does."""

    def __init__(self, *, width: int = 80, absent: frozenset[int] = frozenset(), rows: int = 1) -> None:
        self.width, self.absent, self.rows = width, absent, rows

    def drain(self, stage: DensityFrontStage, numbers: list[int], *, fixed: bool = True) -> int:
        """Returns how many of the rows were hits."""
        entries = entries_of(stage, numbers, fixed=fixed)
        missed = [n for n, entry in zip(numbers, entries.tolist(), strict=True) if entry == MISS]
        if missed:
            sightings = {n: missed.count(n) for n in set(missed)} if len(missed) < 500 else _count(missed)
            rows = {n: [] if n in self.absent else [(n, "x" * self.width)] * self.rows for n in sightings}
            master = RowsInMemory(SCHEMA, rows)
            waiting, ordered = waiting_for(sightings, fixed=fixed)
            for matches in master.matches(waiting, ordered, 10_000):
                stage.admit(matches, master)
        stage.adapt(0)
        stage.check_invariants()
        return len(numbers) - len(missed)


def _count(numbers: list[int]) -> dict[int, int]:
    found, counts = np.unique(np.array(numbers), return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("fixed", [True, False])
def test_what_fits_is_remembered_and_answered(fixed: bool) -> None:
    stage, drainer = make(Region.private(1 << 20), fixed=fixed), Drainer(absent=frozenset({7}))
    assert drainer.drain(stage, list(range(100)), fixed=fixed) == 0
    assert drainer.drain(stage, list(range(100)), fixed=fixed) == 100
    answers = probe(stage, [7, 8, None], fixed=fixed)
    assert (answers.present, answers.absent, answers.nulls) == (1, 1, 1)
    assert report(stage).front_stage_keys == 100
    assert report(stage).front_stage_rows == 99


def test_many_rows_of_one_key_are_one_answer() -> None:
    stage = make(Region.private(1 << 20))
    Drainer(rows=30).drain(stage, [1, 2])
    assert report(stage).front_stage_rows == 60
    assert probe(stage, [1, 2]).present == 2


def test_a_key_that_would_take_too_much_of_the_arena_is_left_out() -> None:
    stage = make(Region.private(SIZE_MIN_BYTES))
    Drainer(rows=100).drain(stage, [1])
    Drainer().drain(stage, [2])
    entries = probe(stage, [1, 2]).entries
    assert entries[0] == MISS
    assert entries[1] != MISS


def test_it_never_holds_more_than_its_region() -> None:
    region = Region.private(64 << 10)
    stage, drainer = make(region), Drainer()
    for start in range(0, 20_000, 1000):
        drainer.drain(stage, list(range(start, start + 1000)))
        assert report(stage).front_stage_bytes <= region.size_bytes
        assert report(stage).front_stage_rows * 80 <= region.size_bytes


def test_frequent_keys_stay_when_others_pass_by() -> None:
    stage, drainer = make(Region.private(64 << 10)), Drainer()
    frequent = list(range(100))
    for start in range(1000, 21_000, 1000):
        drainer.drain(stage, frequent * 5 + list(range(start, start + 1000)))
    entries = probe(stage, frequent).entries
    assert (entries != MISS).sum() >= 95


def test_it_follows_drift() -> None:
    stage, drainer = make(Region.private(64 << 10)), Drainer()
    rng = np.random.default_rng(1)
    for first in (0, 10_000):
        for _ in range(40):
            numbers = first + np.minimum(rng.zipf(1.5, 2000), 3000)
            hits = drainer.drain(stage, numbers.tolist())
        assert hits > 0.75 * 2000


def test_small_rows_are_preferred_to_wide_ones_of_equal_frequency() -> None:
    stage = make(Region.private(64 << 10))
    small, wide = list(range(0, 400, 2)), list(range(1, 400, 2))
    for _ in range(12):
        Drainer(width=20).drain(stage, small * 3)
        Drainer(width=900).drain(stage, wide * 3)
    entries = probe(stage, small + wide).entries != MISS
    assert entries[:200].mean() > 0.95
    assert entries[200:].mean() < 0.5


def test_a_region_is_taken_over_by_the_next_process(tmp_path: Path) -> None:
    stage = make(shared(tmp_path / "f"))
    assert report(stage).front_stage_cold_starts == 1
    Drainer().drain(stage, list(range(50)))
    stage.close()
    again = make(shared(tmp_path / "f"))
    assert report(again).front_stage_cold_starts == 0
    assert Drainer().drain(again, list(range(50))) == 50


@pytest.mark.parametrize("word", range(11))
@pytest.mark.parametrize("bit", [0, 1, 5, 17, 31, 52, 62, 63])
def test_any_flipped_bit_of_the_header_leaves_right_answers_or_a_cold_start(
    tmp_path: Path, word: int, bit: int
) -> None:
    drainer = Drainer(absent=frozenset(range(0, 50, 5)))
    stage = make(shared(tmp_path / "f"))
    drainer.drain(stage, list(range(50)))
    stage.close()
    content = bytearray((tmp_path / "f").read_bytes())
    content[8 * word + bit // 8] ^= 1 << bit % 8
    # Another file, as another machine or process would find it: a process believes what it checked before.
    (tmp_path / "g").write_bytes(content)
    again = make(shared(tmp_path / "g"))
    for _ in range(3):
        answers = probe(again, list(range(50)))
        assert answers.present <= 40
        for number, entry in enumerate(answers.entries.tolist()):
            if entry != MISS:
                one = probe(again, [number])
                assert (one.present, one.absent) == ((0, 1) if number in drainer.absent else (1, 0))
        drainer.drain(again, list(range(50)))
    assert report(again).front_stage_keys >= 0
    again.close()


def test_a_region_of_another_join_is_not_believed(tmp_path: Path) -> None:
    stage = make(shared(tmp_path / "f"), identity="one")
    Drainer().drain(stage, [1])
    stage.close()
    again = make(shared(tmp_path / "f"), identity="two")
    assert report(again).front_stage_cold_starts == 1
    assert report(again).front_stage_keys == 0


def test_a_region_left_in_the_middle_of_a_change_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make(shared(tmp_path / "f"))
    Drainer().drain(stage, list(range(50)))
    stage.close()
    stage = make(shared(tmp_path / "f"))  # taken over once: from now on this process believes the file
    assert report(stage).front_stage_cold_starts == 0

    def die(*_: object) -> None:
        raise MemoryError("killed")

    rows = RowsInMemory(SCHEMA, {90: [(90, "x")]})
    waiting, ordered = waiting_for({90: 3}, fixed=True)
    monkeypatch.setattr(RowLayout, "encode", die)
    with pytest.raises(MemoryError):
        stage.admit(next(rows.matches(waiting, ordered, 10)), rows)
    monkeypatch.undo()
    stage.close()
    again = make(shared(tmp_path / "f"))
    assert report(again).front_stage_cold_starts == 1


@pytest.mark.parametrize("size_bytes", [SIZE_MIN_BYTES, SIZE_MIN_BYTES + 8, 100_000, 1 << 20])
def test_regions_of_any_size_work(size_bytes: int) -> None:
    stage = make(Region.private(size_bytes), row_bytes=1.0)
    for start in (0, 500, 0):
        Drainer(width=0).drain(stage, list(range(start, start + 3000)))
    assert report(stage).front_stage_bytes <= size_bytes
