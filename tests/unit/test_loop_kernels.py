"""Each kernel of the loop, the access path and the sketch against a slow, obvious twin."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from semistream.access_path import _kernels as path_kernels
from semistream.core import _loop_kernels as loop_kernels
from semistream.core.arrow import address_of
from semistream.core.contracts import JOIN_KINDS
from semistream.core.rows import RowLayout
from semistream.front_stage import _sketch_kernels as sketches

ROW_BYTES = 8
ROW_SHAPE = (ROW_BYTES, 0, 2)  # rows of 8 bytes without variable values: their addresses are never followed


@given(
    waiting=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    data=st.data(),
    kind=st.sampled_from(sorted(JOIN_KINDS)),
    chunk=st.sampled_from([1, 2, 3, 100]),
    limit_bytes=st.sampled_from([0, 25, 1 << 30]),
)
def test_pairs_and_counts_of_windowed_matches(
    waiting: list[int], data: st.DataObject, kind: str, chunk: int, limit_bytes: int
) -> None:
    """Whatever windows the rows come in, and whatever chunks the pairs leave in, every pair comes once."""
    rows = [data.draw(st.integers(0, 5)) for _ in waiting]
    starts = np.concatenate([[0], np.cumsum(waiting)]).astype(np.int64)
    order = np.array(data.draw(st.permutations(range(int(starts[-1])))), np.int64)
    pair_bytes = 4 + np.arange(order.size, dtype=np.int64) % 3
    shape = JOIN_KINDS[kind]
    flat = [(key, 100 * key + i + 1) for key, count in enumerate(rows) for i in range(count)]
    window = data.draw(st.sampled_from([1, 2, 100]))
    found: Counter[tuple[int, int]] = Counter()
    kept_in_all: Counter[int] = Counter()
    matched = unmatched = before = first = 0
    for start in range(0, max(1, len(flat)), window):
        part, rest = flat[start : start + window], flat[start + window :]
        stop = part[-1][0] + 1 if rest else len(rows)
        unfinished = bool(rest) and rest[0][0] == stop - 1
        counts = np.bincount([key - first for key, _ in part], minlength=stop - first).astype(np.int64)
        row_at = np.array([at for _, at in part], np.int64)
        befores, leaving = np.zeros(counts.size, np.int64), np.ones(counts.size, np.bool_)
        befores[0] = before
        if unfinished:
            leaving[-1] = False
        state = np.zeros(4, np.int64)
        while state[0] < counts.size:
            index, out = np.zeros(chunk, np.int64), np.zeros(chunk, np.int64)
            filled = loop_kernels.pairs_of_matches(
                order, starts, first, counts, row_at, befores, leaving,
                *ROW_SHAPE, shape.every_match, shape.once, shape.absent, pair_bytes, limit_bytes, state, index, out,
            )  # fmt: skip
            assert 0 <= filled <= chunk
            sizes = pair_bytes[index[:filled]] + ROW_BYTES * (out[:filled] > 0)
            assert filled <= 1 or int(sizes.sum()) <= limit_bytes
            found.update(zip(index[:filled].tolist(), out[:filled].tolist(), strict=True))
        kept, kept_rows, kept_state = (
            np.zeros(1000, np.int64),
            np.zeros(1000, np.int64),
            np.zeros(3, np.int64),
        )
        done, *served = loop_kernels.keep_matches(
            order, starts, first, counts, row_at, befores, leaving,
            *ROW_SHAPE, shape.every_match, shape.once, shape.absent, pair_bytes, 1000, 1 << 30, 0,
            kept_state, kept, kept_rows,
        )  # fmt: skip
        assert done == loop_kernels.KEPT
        kept_in_all.update(kept[: kept_state[0]].tolist())
        assert kept_state[2] == pair_bytes[kept[: kept_state[0]]].sum()
        matched, unmatched = matched + served[0], unmatched + served[1]
        only_key = counts.size == 1
        before = (int(counts[-1]) + (before if only_key else 0)) if unfinished else 0
        first = stop - unfinished
    expected: Counter[tuple[int, int]] = Counter()
    for key, count in enumerate(rows):
        for row in order[starts[key] : starts[key + 1]].tolist():
            if count and shape.every_match:
                expected.update((row, 100 * key + i + 1) for i in range(count))
            elif (count and shape.once) or (not count and shape.absent):
                expected[row, 0] += 1
    assert found == expected
    assert sorted(kept_in_all.elements()) == sorted(row for row, _ in expected.elements())
    assert matched == sum(w for w, count in zip(waiting, rows, strict=True) if count)
    assert unmatched == sum(w for w, count in zip(waiting, rows, strict=True) if not count)


@given(answers=st.lists(st.sampled_from([-1, 0, 5]), max_size=30), first=st.integers(0, 100))
def test_misses_are_selected_in_order(answers: list[int], first: int) -> None:
    out = np.full(len(answers), -9, np.int64)
    count = loop_kernels.select_misses(np.array(answers, np.int64), first, out)
    assert out[:count].tolist() == [first + i for i, answer in enumerate(answers) if answer == 0]


LAYOUT = RowLayout(pa.schema([("t", pa.string()), ("n", pa.int64())]), 2)
KEPT_BEFORE = 2


class Kept:
    """Pairs that are kept, with room for some more; two are there already."""

    def __init__(self, pairs: int, bytes_max: int) -> None:
        self.index, self.rows = (
            np.full(KEPT_BEFORE + pairs, -1, np.int64),
            np.zeros(KEPT_BEFORE + pairs, np.int64),
        )
        self.memory, self.bytes_max = np.zeros(bytes_max + 1, np.uint8), bytes_max
        self.state = np.array([KEPT_BEFORE, 3, 5], np.int64)

    def check(self, pairs: list[tuple[int, str | None]], weight: int, needed: int, *, kept: bool) -> None:
        if not kept:
            assert self.state.tolist() == [KEPT_BEFORE, 3, 5]
            return
        stop = KEPT_BEFORE + len(pairs)
        assert self.state.tolist() == [stop, 3 + needed, 5 + weight]
        assert self.index[KEPT_BEFORE:stop].tolist() == [row for row, _ in pairs]
        texts = LAYOUT.decode(self.rows[KEPT_BEFORE:stop])[0].to_pylist()
        assert texts == [text for _, text in pairs]


def _stored(texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(memory, addresses, sizes) of rows with these texts"""
    columns = [pa.array(texts, pa.string()), pa.array(range(len(texts)), pa.int64())]
    sizes = LAYOUT.sizes(columns, len(texts))
    memory = np.zeros(int(sizes.sum()) + 1, np.uint8)
    rows = address_of(memory) + np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(texts)]
    LAYOUT.encode(columns, rows)
    return memory, rows, sizes


@given(
    texts=st.lists(st.text(max_size=20), max_size=12),
    skip=st.sets(st.integers(0, 11)),
    room=st.integers(0, 14),
    bytes_max=st.integers(5, 400),
)
def test_kept_pairs_read_like_their_originals(
    texts: list[str], skip: set[int], room: int, bytes_max: int
) -> None:
    memory, rows, sizes = _stored(texts)
    rows[[i for i in skip if i < len(texts)]] = 0
    chosen, pair_bytes = np.arange(len(texts))[::-1].copy(), 3 + np.arange(len(texts))
    kept = Kept(room, bytes_max)
    done = loop_kernels.keep_pairs(
        chosen, rows, *LAYOUT.kernel_shape, pair_bytes, bytes_max, address_of(kept.memory),
        kept.state, kept.index, kept.rows,
    )  # fmt: skip
    needed, weight = int(sizes[rows != 0].sum()), int(pair_bytes.sum())
    assert done == (len(texts) <= room and 3 + needed <= bytes_max and 5 + weight <= bytes_max)
    memory[:] = 0
    expected = [None if i in skip else text for i, text in enumerate(texts)]
    kept.check(list(zip(chosen.tolist(), expected, strict=True)), weight, needed, kept=done)


@given(
    texts=st.lists(st.lists(st.text(max_size=20), max_size=3), min_size=1, max_size=5),
    data=st.data(),
    kind=st.sampled_from(sorted(JOIN_KINDS)),
    room=st.integers(0, 40),
    pairs_max=st.sampled_from([0, 3, 100]),
    bytes_max=st.integers(5, 1500),
)
def test_matches_are_kept_as_wholes_or_not_at_all(
    texts: list[list[str]], data: st.DataObject, kind: str, room: int, pairs_max: int, bytes_max: int
) -> None:
    shape, counts = JOIN_KINDS[kind], [len(each) for each in texts]
    waiting = [data.draw(st.integers(1, 3)) for _ in texts]
    before = [data.draw(st.integers(0, 1)) for _ in texts]
    leaving = [data.draw(st.booleans()) for _ in texts]
    starts = np.concatenate([[0], np.cumsum(waiting)]).astype(np.int64)
    order = np.array(data.draw(st.permutations(range(int(starts[-1])))), np.int64)
    pair_bytes = 3 + order
    memory, rows, sizes = _stored([text for each in texts for text in each])
    pairs: list[tuple[int, str | None]] = []
    needed = 0
    for key, found in enumerate(texts):
        had = counts[key] + before[key] > 0
        for row in order[starts[key] : starts[key + 1]].tolist():
            if shape.every_match and found:
                pairs += [(row, text) for text in found]
                needed += int(sizes[sum(counts[:key]) : sum(counts[: key + 1])].sum())
            elif leaving[key] and ((shape.once and had) or (shape.absent and not had)):
                pairs.append((row, None))
    kept = Kept(room, bytes_max)
    done, matched, unmatched = loop_kernels.keep_matches(
        order, starts, 0, np.array(counts), rows, np.array(before), np.array(leaving), *LAYOUT.kernel_shape,
        shape.every_match, shape.once, shape.absent, pair_bytes, pairs_max, bytes_max, address_of(kept.memory),
        kept.state, kept.index, kept.rows,
    )  # fmt: skip
    weight = int(sum(pair_bytes[row] for row, _ in pairs))
    fits = len(pairs) <= room and 3 + needed <= bytes_max and 5 + weight <= bytes_max
    if len(pairs) > pairs_max:
        assert done == loop_kernels.MANY
    else:
        assert done == (loop_kernels.KEPT if fits or not pairs else loop_kernels.FULL)
    memory[:] = 0
    kept.check(pairs, weight, needed, kept=done == loop_kernels.KEPT)
    gone = [
        (w, c + b > 0) for w, c, b, is_gone in zip(waiting, counts, before, leaving, strict=True) if is_gone
    ]
    assert matched == sum(w for w, had in gone if had)
    assert unmatched == sum(w for w, had in gone if not had)


# Ranges of sorted keys: both ends never fall; an absent key has an empty range (first, first - 1).
_ranges = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), max_size=15)


@given(steps=_ranges, window=st.sampled_from([1, 2, 5, 100]))
def test_the_pages_are_the_union_of_the_ranges_however_many_are_asked_for(
    steps: list[tuple[int, int]], window: int
) -> None:
    first_page, last_page = [], []
    reached = 0  # the page of the key before: the next key starts there or later
    for gap, length in steps:
        low = reached + gap
        first_page.append(low)
        last_page.append(low + length)
        reached = max(low + length, low)
    union = sorted({p for a, b in zip(first_page, last_page, strict=True) for p in range(a, b + 1)})
    first, last = np.array(first_page, np.int64), np.array(last_page, np.int64)
    assert path_kernels.range_total(first, last) >= len(union)
    state, pages = np.zeros(2, np.int64), list[int]()
    while True:
        some = np.zeros(window, np.int64)
        filled = path_kernels.next_pages(first, last, state, some)
        pages += some[:filled].tolist()
        if filled < window:
            break
    assert pages == union
    assert path_kernels.stretches(first, last) == sum(page - 1 not in union for page in union)
    first_slot, last_slot = np.zeros(first.size, np.int64), np.zeros(first.size, np.int64)
    assert path_kernels.page_slots(first, last, first_slot, last_slot) == len(union)
    for k in range(first.size):
        slots = pages[first_slot[k] : last_slot[k] + 1] if last_slot[k] >= first_slot[k] else []
        assert slots == list(range(first_page[k], last_page[k] + 1))


_sightings = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), max_size=60)


@given(sightings=_sightings, halve_after=st.integers(0, 60), lines=st.sampled_from([1, 2, 64]))
def test_the_sketch_never_underestimates_below_saturation(
    sightings: list[tuple[int, int]], halve_after: int, lines: int
) -> None:
    memory = np.zeros(64 * lines, np.uint8)
    at = address_of(memory)
    exact: Counter[int] = Counter()
    hashes = np.random.default_rng(3).integers(0, 2**64, 31, np.uint64)
    for step, (key, count) in enumerate(sightings):
        if step == halve_after:
            sketches.halve_sketch(at, lines)
            exact = Counter({k: v // 2 for k, v in exact.items()})
        estimate = sketches.sketch_raise(at, lines, hashes[key], count, 0)
        exact[key] = min(exact[key] + count, 15)
        assert exact[key] <= estimate <= 15
    for key, count in exact.items():
        assert sketches.sketch_raise(at, lines, hashes[key], 0, 0) >= count


def test_the_sketch_is_exact_while_it_is_nearly_empty() -> None:
    memory = np.zeros(64 * 1024, np.uint8)
    hashes = np.random.default_rng(5).integers(0, 2**64, 200, np.uint64)
    for round_ in range(1, 4):
        found = [sketches.sketch_raise(address_of(memory), 1024, h, 1, 0) for h in hashes]
        assert found == [round_] * 200
    assert sketches.sketch_raise(address_of(memory), 1024, hashes[0], 0, 9) == 9  # a floor is a floor


@given(a=st.floats(0, 1), b=st.floats(0, 1))
def test_bins_rise_with_the_density(a: float, b: float) -> None:
    low, high = sorted((a, b))
    bins = sketches.bin_of(low), sketches.bin_of(high)
    assert 0 <= bins[0] <= bins[1] < sketches.BINS
    if low > 2.0**-190 and high > 1.1 * low:
        assert bins[0] < bins[1]


@given(
    frequency=st.integers(1, 4000),
    size=st.integers(1, 10**6),
    rows=st.integers(1, 10**7),
    window=st.integers(1, 10**9),
)
def test_density_rises_with_frequency_and_falls_with_size(
    frequency: int, size: int, rows: int, window: int
) -> None:
    def density(f: float, s: int) -> float:
        return float(sketches.density(f, s, float(rows), float(window)))

    assert 0 < density(frequency, size) <= 1
    assert density(frequency + 1, size) >= density(frequency, size)
    assert density(frequency, size + 1) <= density(frequency, size)
    # The formula as it stands in the design: 1 - (1 - p)^B, per byte.
    p = frequency / window
    if p < 1e-3:
        exact = (1 - (1 - p) ** rows) / size
        assert abs(density(frequency, size) - exact) <= 0.02 * max(exact, 1e-12)
