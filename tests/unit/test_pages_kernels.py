"""The kernels of the page cache against slow, obvious twins, on pages written with `struct`."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests import twins
from tests.twins import PAGE_BYTES, Form, PageRow, guarded, i64, key_arrays, paginate, row_size, sealed

from semistream.core.arrow import address_of
from semistream.core.contracts import MISS, NULL_KEY
from semistream.front_stage import _pages_kernels as kernels

BASE = 3  # pages of another shard before ours, and the number that no page has

forms = st.builds(
    lambda short, fixed, shape, seed: Form(short, fixed, (*shape, short), seed),
    st.sampled_from([2, 4]), st.booleans(), st.sampled_from([(1, 0), (9, 0), (1, 1), (5, 2)]),
    st.integers(0, 1 << 60),
)  # fmt: skip
seeds = st.integers(0, 2**32 - 1)


def random_key(rng: Random, fixed: bool) -> bytes:
    if fixed:
        return rng.choice([rng.randrange(40), 2**63, 2**64 - 1]).to_bytes(8, "big")
    return rng.choice([b"", b"a long beginning "]) + bytes(rng.choices(b"\x00ab\xff", k=rng.randrange(4)))


class Cached:
    """Some pages of a shard in slots of a memory that ends where the last one does."""

    def __init__(self, form: Form, seed: int) -> None:
        self.form, rng = form, Random(seed)
        keys = [random_key(rng, form.fixed) for _ in range(rng.randrange(60))]
        if keys and rng.random() < 0.5:
            keys += [keys[0]] * 30  # a key whose rows span pages
        rows: list[PageRow] = [(key, twins.random_row(rng, form.shape)) for key in sorted(keys)]
        self.pages = paginate(rows, form)
        self.slot_of = np.full(BASE + len(self.pages) + 1, kernels.AWAY, np.int32)
        share = rng.choice([0.5, 0.9, 1.0])
        held = [page for page in range(len(self.pages)) if rng.random() < share]
        rng.shuffle(held)
        self.page_of = i64(BASE + page for page in held)
        for slot, page in enumerate(held):
            self.slot_of[BASE + page] = slot
        self.memory = guarded(b"".join(sealed(self.pages[page], page, form) for page in held) or b"\x00")
        self.asked = sorted({*keys, *(random_key(rng, form.fixed) for _ in range(10))})
        self.asked = sorted(self.asked + rng.choices(self.asked, k=10))

    @property
    def place(self) -> tuple[int, int]:
        return address_of(self.memory), PAGE_BYTES

    def ranges(self) -> list[tuple[int, int]]:
        """The pages that can hold each key asked for: from the first whose last key is not below it, to the
        last whose first key is not above it; one page for an absent key, none below all keys."""
        found = []
        for key in self.asked:
            holds = [i for i, rows in enumerate(self.pages) if any(key == each for each, _ in rows)]
            before = [i for i, rows in enumerate(self.pages) if rows[0][0] <= key]
            found.append((holds[0], holds[-1]) if holds else (before[-1], before[-1]) if before else (0, -1))
        return found

    def look_up(self, entries: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
        found, used = i64(entries), np.tile(i64([0, -1]), (len(entries), 1)).T.copy()
        prefix, offsets, data = key_arrays(self.asked, self.form.fixed)
        first, last = (i64(side) for side in zip(*self.ranges(), strict=True))
        kernels.look_up(
            first, last, BASE, len(self.pages), self.slot_of, *self.place, self.form.short,
            self.form.fixed, prefix, offsets, address_of(data), found, used[0], used[1],
        )  # fmt: skip
        return found.tolist(), list(zip(*used.tolist(), strict=True))

    def entry_twin(self, key: bytes, first: int, last: int) -> int:
        span = range(first, last + 1)
        if any(self.slot_of[BASE + page] < 0 for page in span):
            return MISS
        for page in span:
            for row, (each, _) in enumerate(self.pages[page]):
                if each == key:
                    return 1 + (int(self.slot_of[BASE + page]) << 32 | row)
        return kernels.ABSENT

    def values(self, key: bytes) -> list[bytes]:
        return [values for rows in self.pages for each, values in rows if each == key]


@given(form=forms, seed=seeds)
def test_look_up(form: Form, seed: int) -> None:
    cached = Cached(form, seed)
    entries, used = cached.look_up([kernels.ABSENT] * len(cached.asked))
    for key, entry, pages, (first, last) in zip(cached.asked, entries, used, cached.ranges(), strict=True):
        assert entry == cached.entry_twin(key, first, last)
        if entry != MISS and last >= first:
            assert pages == (BASE + first, BASE + last)
        else:
            assert pages[0] > pages[1]


@given(form=forms, seed=seeds)
def test_what_other_shards_have_answered_is_left_and_what_they_do_not_know_stays_unknown(
    form: Form, seed: int
) -> None:
    cached = Cached(form, seed)
    rng = Random(seed)
    by_key = {key: rng.choice([9, MISS, kernels.ABSENT]) for key in cached.asked}
    entries, _ = cached.look_up([by_key[key] for key in cached.asked])
    for key, entry, (first, last) in zip(cached.asked, entries, cached.ranges(), strict=True):
        mine = cached.entry_twin(key, first, last)
        if by_key[key] == 9:
            assert entry == 9
        elif mine > 0:
            assert entry == mine
        else:
            assert entry == (MISS if MISS in (mine, by_key[key]) else kernels.ABSENT)


@given(
    entries=st.lists(st.sampled_from([MISS, NULL_KEY, kernels.ABSENT, 1, 77]), max_size=30),
    misses_max=st.integers(1, 10),
)
def test_settle(entries: list[int], misses_max: int) -> None:
    first, last = i64(i % 4 for i in range(len(entries))), i64(i % 4 + i % 3 - 1 for i in range(len(entries)))
    utility = np.zeros(6, np.int32)
    utility[5] = kernels.UTILITY_MAX
    rows, present, absent, nulls = kernels.settle(i64(entries), first, last, misses_max, utility)
    missed = [i for i, entry in enumerate(entries) if entry == MISS]
    assert rows == (missed[misses_max - 1] + 1 if len(missed) >= misses_max else len(entries))
    known = entries[:rows]
    assert (absent, nulls) == (known.count(kernels.ABSENT), known.count(NULL_KEY))
    assert present == sum(entry > 0 for entry in known)
    points = [0] * 5
    for i, entry in enumerate(known):
        if entry not in (MISS, NULL_KEY):
            for page in range(first[i], last[i] + 1):
                points[page] += 1
    assert utility.tolist() == [*points, kernels.UTILITY_MAX]


@given(
    form=forms, seed=seeds, every_match=st.booleans(), once=st.booleans(), absent=st.booleans(),
    limit_bytes=st.sampled_from([1, 200, 1 << 20]), most=st.sampled_from([1, 3, 1000]),
)  # fmt: skip
def test_pairs(
    form: Form, seed: int, every_match: bool, once: bool, absent: bool, limit_bytes: int, most: int
) -> None:
    cached = Cached(form, seed)
    entries, _ = cached.look_up([kernels.ABSENT] * len(cached.asked))
    entries.append(NULL_KEY)
    pair_bytes = i64(16 + i % 5 for i in range(len(entries)))
    expected: list[tuple[int, bytes | None]] = []
    for i, entry in enumerate(entries):
        if entry > 0 and every_match:
            expected += [(i, values) for values in cached.values(cached.asked[i])]
        elif (entry > 0 and once) or (entry < 0 and absent):
            expected.append((i, None))
    start, page_bytes = cached.place
    memory, state, found = cached.memory.tobytes(), i64([0, 0, 0]), []
    while state[0] < len(entries):
        index, rows = np.zeros(most, np.int64), np.zeros(most, np.int64)
        filled = kernels.pairs(
            i64(entries), start, page_bytes, cached.page_of, cached.slot_of, form.short, form.fixed,
            *form.shape, every_match, once, absent, pair_bytes, limit_bytes, state, index, rows,
        )  # fmt: skip
        took = 0
        for i, at in zip(index[:filled].tolist(), rows[:filled].tolist(), strict=True):
            values = memory[at - start :] if at else None
            size = row_size(values, form.shape) if values is not None else 0
            assert size is not None
            found.append((i, values[:size] if values is not None else None))
            took += int(pair_bytes[i]) + size
        assert took <= limit_bytes or filled == 1
    assert found == expected


@given(seed=seeds)
def test_note_and_most_useful(seed: int) -> None:
    rng, pages = Random(seed), 20
    slot_of = np.full(pages + 2, kernels.AWAY, np.int32)
    for slot, page in enumerate(rng.sample(range(pages), 5)):
        slot_of[1 + page] = slot
    utility = np.array([rng.randrange(9) for _ in range(pages + 2)], np.int32)
    points, marks, before = utility.tolist(), {}, slot_of.tolist()
    reach = i64([1 << 62, -1])
    for _ in range(3):
        first = sorted(rng.randrange(pages + 3) for _ in range(6))
        spans = [(page, page + rng.choice([-1, 0, 0, 2])) for page in first]
        sightings = [rng.randrange(1, 9) for _ in spans]
        counts, whole = [rng.randrange(3) for _ in spans], [rng.random() < 0.7 for _ in spans]
        for (low, high), seen, count, is_whole in zip(spans, sightings, counts, whole, strict=True):
            for page in range(low, min(high, pages - 1) + 1):  # pages that R got since are not known
                if is_whole or count:
                    points[1 + page] += seen
                    if before[1 + page] < 0:
                        marks[1 + page] = is_whole and marks.get(1 + page, True)
        kernels.note(
            i64(low for low, _ in spans), i64(high for _, high in spans), 1, pages, i64(sightings), i64(counts),
            np.array(whole), slot_of, utility, reach,
        )  # fmt: skip
    assert utility.tolist() == points
    assert reach.tolist() == ([min(marks), max(marks)] if marks else [1 << 62, -1])
    floor, room = rng.randrange(-1, 12), rng.choice([1, 3, 50])
    heap = np.full(room, -9, np.int64)
    met = [page for page, is_whole in marks.items() if is_whole and points[page] > floor]
    low, high = reach.tolist() if marks else (0, pages)
    found = kernels.most_useful(low, high, floor, slot_of, utility, heap)
    assert found == min(len(met), room)
    chosen = heap[:found].tolist()
    assert len(set(chosen)) == found
    assert set(chosen) <= set(met)
    assert sorted(points[page] for page in chosen) == sorted(points[page] for page in met)[len(met) - found :]
    assert slot_of.tolist() == before


def _key_runs(pages: list[list[PageRow]]) -> Iterator[bytes]:
    for rows in pages:
        yield from {key for key, _ in rows}


@given(form=forms, seed=seeds)
def test_census_and_copies(form: Form, seed: int) -> None:
    cached = Cached(form, seed)
    held = [cached.pages[page - BASE] for page in cached.page_of.tolist()]
    slots = np.arange(len(held))
    keys, rows = kernels.census(slots, *cached.place, form.short, form.fixed)
    assert (keys, rows) == (len(list(_key_runs(held))), sum(map(len, held)))
    target = guarded(b"\x00" * max(1, PAGE_BYTES * len(held)))
    back = slots[::-1].copy()
    page_at = address_of(cached.memory) + PAGE_BYTES * slots
    assert kernels.copy_pages(page_at, back, address_of(target), PAGE_BYTES) == rows
    for slot in slots.tolist():
        there = target[PAGE_BYTES * back[slot] :][:PAGE_BYTES]
        assert (there == cached.memory[PAGE_BYTES * slot :][:PAGE_BYTES]).all()


def test_halve() -> None:
    utility = np.array([0, 1, 2, 7, kernels.UTILITY_MAX], np.int32)
    kernels.halve(utility)
    assert utility.tolist() == [0, 0, 1, 3, kernels.UTILITY_MAX // 2]
