"""What every front stage promises: a complete answer or a miss, whatever happened before."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import JOIN_KINDS, MISS, NULL_KEY, Answers, ChunkLimit, FrontStage, JoinKind
from semistream.core.rows import RowLayout
from semistream.front_stage.balanced import BalancedFrontStage
from semistream.front_stage.clairvoyant import ClairvoyantFrontStage
from semistream.front_stage.density import SIZE_MIN_BYTES, DensityFrontStage
from semistream.front_stage.lru import LruFrontStage
from semistream.front_stage.none import NoFrontStage
from semistream.front_stage.pages import PageCache, page_cache_bytes
from semistream.front_stage.region import Region
from semistream.front_stage.s3_fifo import S3FifoFrontStage
from semistream.front_stage.threshold import ThresholdFrontStage, ThresholdSettings
from semistream.front_stage.w_tinylfu import WTinyLfuFrontStage
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable
from semistream.testing.discovery import implementations, make
from semistream.testing.fakes import Row, RowsInMemory, encode_keys, key_column, waiting_for


def _density(layout: RowLayout, fixed: bool) -> DensityFrontStage:
    # The smallest region there may be, so that some dozen keys fill it.
    region = Region.private(SIZE_MIN_BYTES)
    return DensityFrontStage(
        region,
        layout=layout,
        fixed=fixed,
        identity="contract",
        row_bytes=200.0,
        decode_bytes=1500,
        reservation=MemoryBudget(region.size_bytes).reserve("front stage", region.size_bytes),
    )


def _small(kind: type, **settings: Any) -> Callable[..., Any]:
    """So small that some dozen keys fill it."""

    def made(layout: RowLayout, fixed: bool) -> Any:
        return kind(8192, layout=layout, fixed=fixed, row_bytes=200.0, decode_bytes=1500, **settings)

    return made


def _balanced(layout: RowLayout, fixed: bool) -> BalancedFrontStage:
    return BalancedFrontStage(
        MemoryBudget(6000),
        bytes_max=8192,
        layout=layout,
        fixed=fixed,
        row_bytes=200.0,
        waiting_row_bytes=30.0,
        decode_bytes=1500,
    )


_stores: dict[tuple[str, bool], tuple[tempfile.TemporaryDirectory[str], MasterTable]] = {}


def _pages(layout: RowLayout, fixed: bool) -> PageCache:
    """Over a table of the suite's rows, with room for a few of its pages."""
    name = (str(layout.schema), fixed)
    if name not in _stores:
        keep = tempfile.TemporaryDirectory()
        rows = [(key, row) for key in range(KEYS) for row in rows_of_key(key, layout.schema)]
        columns = {"key": key_column([key for key, _ in rows], fixed=fixed)}
        for i, field in enumerate(layout.schema):
            columns[field.name] = pa.array([row[i] for _, row in rows], field.type)
        table = build_store(pa.table(columns), keep.name + "/store", key="key", page_size=512)
        _stores[name] = (keep, table)
    table = _stores[name][1]
    size_bytes = page_cache_bytes(table.pages, table.page_bytes, slots=6)
    return PageCache(
        {0: table.open_shard(0)},
        budget=MemoryBudget(size_bytes),
        size_bytes=size_bytes,
        layout=layout,
        fixed=fixed,
    )


MAKERS: Mapping[type, Callable[..., Any]] = {
    NoFrontStage: lambda layout, fixed: NoFrontStage(layout),
    DensityFrontStage: _density,
    ThresholdFrontStage: _small(ThresholdFrontStage, settings=ThresholdSettings(absent_keys=True)),
    BalancedFrontStage: _balanced,
    LruFrontStage: _small(LruFrontStage),
    PageCache: _pages,
    WTinyLfuFrontStage: _small(WTinyLfuFrontStage),
    S3FifoFrontStage: _small(S3FifoFrontStage),
    ClairvoyantFrontStage: _small(
        ClairvoyantFrontStage, probabilities=lambda keys: (keys.hashes % np.uint64(1000)) / 1000
    ),
}

SCHEMAS = {
    "number and text": pa.schema([("n", pa.int64()), ("text", pa.string())]),
    "number": pa.schema([("n", pa.int32())]),
    "nothing": pa.schema([]),
}
KEYS = 200
LIMITS_BYTES = [1, 100, 1 << 20]


def rows_of_key(key: int, schema: pa.Schema) -> list[Row]:
    """0 to 3 rows, some of them wide; every fifth key is absent."""
    count = 0 if key % 5 == 0 else 1 + key % 3
    full = [(10 * key + i, None if key % 11 == 1 else "x" * (key * 37 % 300)) for i in range(count)]
    return [row[: len(schema)] for row in full]


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("drain"), st.integers(0, KEYS - 1), st.integers(1, KEYS), st.integers(1, 20)),
        st.tuples(st.just("probe"), st.integers(0, KEYS - 1), st.integers(0, KEYS), st.just(0)),
        st.tuples(st.just("adapt"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@pytest.mark.parametrize("implementation", implementations(FrontStage, "semistream.front_stage"))
class FrontStageContract:
    """Subclass it in a test module to run it."""

    def test_can_be_made(self, implementation: type) -> None:
        layout = RowLayout(SCHEMAS["number"], 2)
        stage = make(MAKERS, implementation, layout=layout, fixed=True)
        assert stage.layout is layout
        stage.check_invariants()

    @pytest.mark.parametrize("fixed", [True, False])
    def test_knows_nothing_at_first(self, implementation: type, fixed: bool) -> None:
        stage = make(MAKERS, implementation, layout=RowLayout(SCHEMAS["number"], 2), fixed=fixed)
        answers = stage.probe(encode_keys([1, None, 2, None], fixed=fixed), 0, 4)
        assert answers.entries.tolist() == [MISS, NULL_KEY, MISS, NULL_KEY]
        assert (answers.present, answers.absent, answers.nulls, answers.misses) == (0, 0, 2, 2)

    def test_an_empty_batch_is_answered(self, implementation: type) -> None:
        stage = make(MAKERS, implementation, layout=RowLayout(SCHEMAS["number"], 2), fixed=True)
        answers = stage.probe(encode_keys([], fixed=True), 0, 1)
        assert answers.misses == 0
        assert list(stage.pairs(answers, JOIN_KINDS["left"], _limit(1, 0))) == []

    @pytest.mark.parametrize("fixed", [True, False])
    @given(
        numbers=st.lists(st.one_of(st.none(), st.integers(0, KEYS - 1)), max_size=30),
        start=st.integers(0, 30),
        misses_max=st.integers(1, 31),
    )
    def test_a_probe_ends_with_the_last_miss_it_was_asked_for(
        self,
        implementation: type,
        fixed: bool,
        numbers: list[int | None],
        start: int,
        misses_max: int,
    ) -> None:
        start = min(start, len(numbers))
        schema = SCHEMAS["number"]
        table = {key: rows_of_key(key, schema) for key in range(KEYS)}
        stage = make(MAKERS, implementation, layout=RowLayout(schema, 2), fixed=fixed)
        for _ in range(2):  # a front stage may want to see a key twice
            self._drain(
                stage, RowsInMemory(schema, table), dict.fromkeys(range(0, KEYS, 3), 9), fixed, 10_000
            )
        keys = encode_keys(numbers, fixed=fixed)
        everything = stage.probe(keys, start, len(numbers) + 1)
        assert everything.entries.size == len(numbers) - start
        missed = np.flatnonzero(everything.entries == MISS)
        stop = missed[misses_max - 1] + 1 if missed.size >= misses_max else len(numbers) - start
        some = stage.probe(keys, start, misses_max)
        assert some.entries.tolist() == everything.entries[:stop].tolist()
        assert some.misses == min(missed.size, misses_max)

    @pytest.mark.parametrize("fixed", [True, False])
    def test_of_a_key_that_is_not_whole_nothing_is_answered(self, implementation: type, fixed: bool) -> None:
        schema = SCHEMAS["number and text"]
        master = RowsInMemory(schema, {1: [(1, "a"), (2, "b"), (3, "c")], 2: [(4, "d")], 3: []})
        stage = make(MAKERS, implementation, layout=RowLayout(schema, 2), fixed=fixed)
        for cycle in range(12):
            self._drain(stage, master, {1: 50, 2: 50, 3: 50}, fixed, window_rows=2, cycles=cycle)
            answers = stage.probe(encode_keys([1], fixed=fixed), 0, 1)
            assert answers.entries.tolist() == [MISS]

    @pytest.mark.parametrize("fixed", [True, False])
    @pytest.mark.parametrize("columns", SCHEMAS)
    @given(steps=_steps, window_rows=st.sampled_from([1, 2, 7, 10_000]))
    def test_an_answer_is_complete_or_a_miss(
        self,
        implementation: type,
        columns: str,
        fixed: bool,
        steps: list[tuple[str, int, int, int]],
        window_rows: int,
    ) -> None:
        schema = SCHEMAS[columns]
        table = {key: rows_of_key(key, schema) for key in range(KEYS)}
        master = RowsInMemory(schema, table)
        stage = make(MAKERS, implementation, layout=RowLayout(schema, 2), fixed=fixed)
        for cycle, (verb, first, count, sightings) in enumerate(steps):
            numbers = [(first + i) % KEYS for i in range(min(count, KEYS))]
            limits = LIMITS_BYTES[cycle % 3 :][:1]  # all of them at the end
            if verb == "adapt":
                stage.adapt(cycle)
            elif verb == "probe":
                self._check(stage, [*numbers, None, *numbers[:3]], table, fixed, limits)
            else:
                waiting = self._check(stage, numbers, table, fixed, limits)
                if first % 4 == 0:
                    waiting = (
                        numbers  # where rows wait for long, a key may come in while others still wait for it
                    )
                self._drain(
                    stage, master, dict.fromkeys(waiting, sightings), fixed, window_rows, cycles=cycle
                )
            stage.check_invariants()
        self._check(stage, [None, *range(KEYS)], table, fixed)

    def _drain(
        self,
        stage: Any,
        master: RowsInMemory,
        sightings: Mapping[int, int],
        fixed: bool,
        window_rows: int,
        cycles: int = 0,
    ) -> None:
        """`sightings[n]` stream rows wait for key n, and R is read for them."""
        if sightings:
            waiting, ordered = waiting_for(sightings, fixed=fixed)
            for matches in master.matches(waiting, ordered, window_rows):
                stage.admit(matches, master)
        stage.adapt(cycles)

    def _check(
        self,
        stage: Any,
        numbers: Sequence[int | None],
        table: Mapping[int, list[Row]],
        fixed: bool,
        limits_bytes: Sequence[int] = LIMITS_BYTES,
    ) -> list[int]:
        """Probes, compares every answer with the table, and returns the keys that missed."""
        answers = stage.probe(encode_keys(numbers, fixed=fixed), 0, len(numbers) + 1)
        known = [entry not in (MISS, NULL_KEY) for entry in answers.entries.tolist()]
        rows = [[] if number is None else table[number] for number in numbers]
        assert (answers.entries == NULL_KEY).tolist() == [number is None for number in numbers]
        assert answers.present == sum(known and bool(r) for known, r in zip(known, rows, strict=True))
        assert answers.absent == sum(known and not r for known, r in zip(known, rows, strict=True))
        assert answers.nulls == numbers.count(None)
        assert answers.present + answers.absent <= answers.probes <= answers.entries.size
        answered = [i for i, is_known in enumerate(known) if is_known or numbers[i] is None]
        for kind in JOIN_KINDS.values():
            expected = [pair for i in answered for pair in _pairs_of(kind, i, rows[i])]
            for limit_bytes in limits_bytes:
                limit = _limit(limit_bytes, len(numbers))
                assert _all_pairs(stage, answers, kind, limit) == expected
        return [n for n, is_known in zip(numbers, known, strict=True) if n is not None and not is_known]


def _limit(limit_bytes: int, rows: int) -> ChunkLimit:
    """Stream rows of different size."""
    return ChunkLimit(bytes=limit_bytes, pair_bytes=16 + np.arange(rows, dtype=np.int64) % 5)


def _pairs_of(kind: JoinKind, index: int, rows: list[Row]) -> list[tuple[int, Row | None]]:
    if rows and kind.every_match:
        return [(index, row) for row in rows]
    alone = kind.once if rows else kind.absent
    return [(index, None)] if alone else []


def _all_pairs(
    stage: Any, answers: Answers, kind: JoinKind, limit: ChunkLimit
) -> list[tuple[int, Row | None]]:
    found: list[tuple[int, Row | None]] = []
    for pairs in stage.pairs(answers, kind, limit):
        assert 1 <= pairs.stream_index.size <= limit.pairs
        columns = [column.to_pylist() for column in stage.layout.decode(pairs.row_at)]
        rows = list(zip(*columns, strict=True)) if columns else [()] * pairs.row_at.size
        alone = (pairs.row_at == 0).tolist()
        found += [
            (index, None if without else row)
            for index, row, without in zip(pairs.stream_index.tolist(), rows, alone, strict=True)
        ]
    return found
