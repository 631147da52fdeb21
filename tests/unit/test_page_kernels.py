"""The kernels of the page format against slow, obvious twins: pages written and read with `struct`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests import twins
from tests.oracle import MASK
from tests.twins import PAGE_BYTES, Bytes, Form, PageRow, guarded, i64, key_arrays, paginate, sealed

from semistream.core.arrow import address_of
from semistream.master_table import _fence_kernels as fence_kernels
from semistream.master_table import _page_kernels as kernels

forms = st.builds(
    lambda short, fixed, shape, seed: Form(short, fixed, (*shape, short), seed),
    st.sampled_from([2, 4]), st.booleans(), st.sampled_from([(1, 0), (9, 0), (1, 1), (5, 2)]),
    st.integers(0, int(kernels.UNSEALED) - 1),
)  # fmt: skip
seeds = st.integers(0, 2**32 - 1)


def random_key(rng: Random, fixed: bool) -> bytes:
    if fixed:
        return rng.choice([rng.randrange(40), 2**63, MASK]).to_bytes(8, "big")
    return rng.choice([b"", b"a long beginning "]) + bytes(rng.choices(b"\x00ab\xff", k=rng.randrange(4)))


def random_rows(rng: Random, form: Form, count: int) -> list[PageRow]:
    """Sorted by key; one key may have rows for many pages."""
    keys = [random_key(rng, form.fixed) for _ in range(count)]
    if count and rng.random() < 0.5:
        keys += [keys[0]] * 30
    return [(key, twins.random_row(rng, form.shape)) for key in sorted(keys)]


# -- writing -----------------------------------------------------------------------------------------------


class Writer:
    """Fills a buffer of a few pages with the kernels, as `ShardWriter` does; `content` is what was flushed."""

    def __init__(self, form: Form, buffer_pages: int) -> None:
        self.form, self.buffer_pages = form, buffer_pages
        self.buffer = np.zeros(buffer_pages * PAGE_BYTES, np.uint8)
        self.state = i64([0, 0, PAGE_BYTES])
        self.content = b""

    def write(self, rows: list[PageRow]) -> None:
        sizes = i64(len(self.form.stored(row)) + 4 for row in rows)
        page_of, offset_of, start = np.empty_like(sizes), np.empty_like(sizes), 0
        while start < len(rows):
            stop = kernels.plan_rows(
                sizes, start, PAGE_BYTES, self.buffer_pages, self.state, self.form.short, page_of, offset_of
            )
            prefix, offsets, data = key_arrays([key for key, _ in rows], self.form.fixed)
            rows_at = np.empty(stop - start, np.int64)
            kernels.place_keys(
                address_of(self.buffer), PAGE_BYTES, self.form.short, self.form.fixed, prefix, offsets,
                address_of(data), page_of, offset_of, start, stop, rows_at,
            )  # fmt: skip
            for at, (_, values) in zip(rows_at - address_of(self.buffer), rows[start:stop], strict=True):
                self.buffer[at : at + len(values)] = np.frombuffer(values, np.uint8)
            if stop < len(rows):
                self.flush()
            start = stop

    def flush(self) -> None:
        count = int(self.state[0]) + 1 if self.state[1] else 0
        first = len(self.content) // PAGE_BYTES
        seed = np.uint64(self.form.seed)
        kernels.seal_pages(address_of(self.buffer), PAGE_BYTES, count, first, self.form.short, seed)
        self.content += self.buffer[: count * PAGE_BYTES].tobytes()
        self.buffer[:] = 0
        self.state[:] = (0, 0, PAGE_BYTES)


@given(seed=seeds, form=forms, buffer_pages=st.sampled_from([2, 3, 50]))
def test_pages_are_written_byte_by_byte_as_documented(seed: int, form: Form, buffer_pages: int) -> None:
    rng = Random(seed)
    rows, writer = random_rows(rng, form, rng.choice([0, 1, 30, 90])), Writer(form, buffer_pages)
    start = 0
    while start < len(rows):
        stop = start + rng.choice([1, 7, 100])
        writer.write(rows[start:stop])
        start = stop
    writer.flush()
    expected = [sealed(page, number, form) for number, page in enumerate(paginate(rows, form))]
    assert writer.content == b"".join(expected)

    memory = guarded(writer.content)
    page_at, numbers = address_of(memory) + PAGE_BYTES * np.arange(len(expected)), np.arange(len(expected))
    assert kernels.first_damaged(page_at, numbers, PAGE_BYTES, np.uint64(form.seed)) == -1
    for page in rng.sample(range(len(expected)), min(3, len(expected))):
        memory[page * PAGE_BYTES + rng.randrange(PAGE_BYTES)] ^= 1 << rng.randrange(8)
        assert kernels.first_damaged(page_at[page:], numbers[page:], PAGE_BYTES, np.uint64(form.seed)) == 0


@given(seed=seeds, fixed=st.booleans())
def test_the_first_unsorted_key(seed: int, fixed: bool) -> None:
    rng = Random(seed)
    keys = sorted(random_key(rng, fixed) for _ in range(rng.randrange(20)))
    if keys and rng.random() < 0.7:
        keys[rng.randrange(len(keys))] = random_key(rng, fixed)
    last = rng.choice([None, random_key(rng, fixed), min(keys, default=b"\x00" * 8)])
    before = [last, *keys][: len(keys)]
    expected = [i for i, (a, b) in enumerate(zip(before, keys, strict=True)) if a is not None and b < a]
    prefix, offsets, data = key_arrays(keys, fixed)
    last_prefix, _, last_data = key_arrays([last or b""], fixed)
    found = kernels.first_unsorted(
        fixed, prefix, offsets, address_of(data), last is not None, last_prefix[0],
        address_of(last_data) + 6, len(last or b""),
    )  # fmt: skip
    assert found == (expected[0] if expected else -1)


@given(seed=seeds)
def test_separators_are_the_shortest_beginnings_above_the_key_before(seed: int) -> None:
    rng = Random(seed)
    keys = sorted(random_key(rng, False) for _ in range(rng.randrange(1, 20)))
    last = rng.choice([None, min(keys), keys[0][:-1]])
    opens = sorted(rng.sample(range(len(keys)), rng.randrange(len(keys) + 1)))
    expected = []
    for i in opens:
        before, key = (keys[i - 1] if i else last), keys[i]
        shortest = [n for n in range(len(key) + 1) if key[:n] > (before or b"")]
        expected.append((before == key, len(key) if before == key or not shortest else shortest[0]))
    _, offsets, data = key_arrays(keys, False)
    before_data = guarded(last or b"")
    continues, lengths = np.full(len(opens), 9, np.uint8), np.zeros(len(opens), np.int64)
    fence_kernels.separators(
        i64(opens), offsets, address_of(data), address_of(before_data), -1 if last is None else len(last),
        continues, lengths,
    )  # fmt: skip
    assert list(zip(continues.tolist(), lengths.tolist(), strict=True)) == expected


# -- finding -----------------------------------------------------------------------------------------------


@given(seed=seeds, fixed=st.booleans())
def test_located_are_the_pages_that_can_hold_a_key(seed: int, fixed: bool) -> None:
    """A page holds keys from its fence on, below the next page's; at it, where that page continues a key."""
    rng, fences, continues = Random(seed), list[bytes](), list[int]()
    for fence in sorted({random_key(rng, fixed) for _ in range(rng.choice([0, 1, 4, 25]))}):
        copies = rng.choice([1, 1, 2, 5])
        fences += [fence] * copies
        continues += [int(bool(continues) and rng.random() < 0.3), *[1] * (copies - 1)]
    keys = sorted(random_key(rng, fixed) for _ in range(rng.randrange(12)))

    def may_hold(page: int, key: bytes) -> bool:
        if page + 1 == len(fences) or key < fences[page + 1]:
            return fences[page] <= key
        return fences[page] <= key == fences[page + 1] and bool(continues[page + 1])

    (prefix, offsets, data), flags = key_arrays(keys, fixed), np.array(continues, np.uint8)
    fence_words, fence_offsets, fence_data = key_arrays(fences, fixed)
    first, last = np.full(len(keys), -9, np.int64), np.full(len(keys), -9, np.int64)
    if fixed:
        fence_kernels.locate_words(fence_words, flags, prefix, first, last)
    else:
        ends, at = fence_offsets.astype(np.uint32), address_of(data)
        fence_kernels.locate_bytes(ends, address_of(fence_data), flags, offsets, at, len(keys), first, last)
    for key, low, high in zip(keys, first.tolist(), last.tolist(), strict=True):
        pages = [page for page in range(len(fences)) if may_hold(page, key)]
        assert (low, high) == ((pages[0], pages[-1]) if pages else (0, -1))


class Search:
    """Sorted keys sought in a plan of pages, with `match`, window by window."""

    def __init__(self, rng: Random, rows: list[PageRow], form: Form) -> None:
        pages, held = paginate(rows, form), sorted(dict(rows))
        keys = {random_key(rng, form.fixed) for _ in range(rng.choice([0, 20]))}
        keys.update(rng.sample(held, rng.choice([1, (len(held) + 1) // 2, len(held)])))
        if form.fixed and rng.random() < 0.5:
            keys.update(n.to_bytes(8, "big") for n in range(40, 200))
        self.form, self.keys = form, sorted(keys)
        self.contents = [sealed(page, number, form) for number, page in enumerate(pages)]
        self.expected = [values for key, values in rows if key in keys]
        ranges = [self._range(pages, key) for key in self.keys]
        for i in range(1, len(ranges)):
            if ranges[i - 1] and rng.random() < 0.2:  # a range may be wider than need be
                ranges[i] = [*range(ranges[i - 1][-1], ranges[i][0]), *ranges[i]]
        needed = sorted({page for each in ranges for page in each})
        self.pages = rng.choice([needed, list(range(len(pages)))])
        slots = [[self.pages.index(page) for page in each] for each in ranges]
        self.first_slot = i64(each[0] if each else 0 for each in slots)
        self.last_slot = i64(each[-1] if each else -1 for each in slots)

    def _range(self, pages: list[list[PageRow]], key: bytes) -> list[int]:
        """The pages with the key; else the one where it would stand, if it is not below all."""
        holding = [number for number, page in enumerate(pages) if key in dict(page)]
        below = [number for number, page in enumerate(pages) if page[0][0] < key]
        return holding or below[-1:]

    def run(self, contents: list[bytes], window_pages: int, room: int) -> Iterator[tuple[int, list[bytes]]]:
        """Per call of `match`: its outcome, and the values it found."""
        self.state, self.counts = i64([0, 0, -1, 0]), np.zeros(len(self.keys), np.int64)
        (prefix, offsets, data), row_at = key_arrays(self.keys, self.form.fixed), np.empty(room, np.int64)
        for window in range(0, max(1, len(self.pages)), window_pages):
            numbers = self.pages[window : window + window_pages]
            memory = [guarded(contents[number]) for number in numbers]
            outcome = kernels.ROWS_FULL
            while outcome == kernels.ROWS_FULL:
                outcome = kernels.match(
                    i64(map(address_of, memory)), PAGE_BYTES, np.uint64(self.form.seed), i64(numbers), window,
                    window + len(numbers), self.form.short, *self.form.shape[:2],
                    self.form.fixed, prefix, offsets, address_of(data),
                    self.first_slot, self.last_slot, self.state, self.counts, row_at,
                )  # fmt: skip
                found = row_at[: self.state[kernels.ROWS]].tolist()
                yield outcome, [self._values(memory, at) for at in found]
                self.state[kernels.ROWS] = 0
            if outcome == kernels.DAMAGED:
                return

    def _values(self, memory: list[Bytes], at: int) -> bytes:
        (page,) = [page for page in memory if 0 <= at - address_of(page) < PAGE_BYTES]
        content = page[at - address_of(page) :].tobytes()
        size = twins.row_size(content, self.form.shape)
        assert size is not None
        return content[:size]


@given(seed=seeds, form=forms, window_pages=st.sampled_from([1, 2, 100]), room=st.sampled_from([1, 5, 999]))
def test_match_finds_the_rows_of_every_key(seed: int, form: Form, window_pages: int, room: int) -> None:
    rng = Random(seed)
    rows = random_rows(rng, form, rng.choice([1, 30, 90]))
    search = Search(rng, rows, form)
    outcomes, found = zip(*search.run(search.contents, window_pages, room), strict=True)
    assert kernels.DAMAGED not in outcomes
    assert [values for part in found for values in part] == search.expected
    assert search.counts.tolist() == [sum(key == held for held, _ in rows) for key in search.keys]


@given(seed=seeds, form=forms, window_pages=st.sampled_from([1, 3, 100]))
def test_match_in_a_damaged_page_is_right_or_says_so(seed: int, form: Form, window_pages: int) -> None:
    rng = Random(seed)
    search = Search(rng, random_rows(rng, form, rng.choice([1, 30])), form)
    damaged = rng.choice(search.pages)
    for _ in range(15):
        at, width = (
            rng.choice([8, *[rng.randrange(16, 48)] * 4, *[rng.randrange(508)] * 4]),
            rng.choice([1, 4]),
        )
        page = bytearray(search.contents[damaged])
        page[at : at + width] = rng.choice([b"\x00", b"\xff", b"\x01", rng.randbytes(1)]) * width
        contents = [bytes(page) if number == damaged else c for number, c in enumerate(search.contents)]
        outcomes, found = zip(*search.run(contents, window_pages, 50), strict=True)
        values = [each for part in found for each in part]
        if kernels.DAMAGED in outcomes:
            assert search.pages[search.state[kernels.SLOT]] == damaged
            assert values == search.expected[: len(values)]
        else:
            assert values == search.expected


@given(seed=seeds, form=forms)
def test_match_believes_no_row_whose_values_are_cut_off(seed: int, form: Form) -> None:
    rng = Random(seed)
    key, values = random_rows(rng, form, 1)[0]
    search = Search(rng, [(key, values[: rng.randrange(len(values))])], form)
    assert list(search.run(search.contents, 1, 5)) == [(kernels.DAMAGED, [])]


@given(seed=seeds, form=forms)
def test_search_finds_the_first_row_not_below_a_key(seed: int, form: Form) -> None:
    rng = Random(seed)
    rows = paginate(random_rows(rng, form, 30), form)[0]
    page, held = guarded(sealed(rows, 0, form)), [key for key, _ in rows]
    for key in [*held[:5], *(random_key(rng, form.fixed) for _ in range(5))]:
        prefix, _, data = key_arrays([key], form.fixed)
        found = kernels._search(
            address_of(page), PAGE_BYTES, len(rows), form.short, form.fixed, prefix[0],
            address_of(data) + 6 * (not form.fixed), len(key),
        )  # fmt: skip
        assert found == bisect_left(held, key)


@given(seed=seeds, form=forms)
def test_search_reads_no_key_beyond_its_page(seed: int, form: Form) -> None:
    """Row 0 ends where the page ends; its key, whatever length it claims, is over there."""
    form = form._replace(fixed=False)
    key, values = row = random_rows(Random(seed), form, 1)[0]
    page, start = bytearray(sealed([row], 0, form)), PAGE_BYTES - len(form.stored(row))
    page[start : start + form.short] = b"\xff" * form.short
    memory, sought = guarded(bytes(page)), guarded(key + values + b"and more")
    at, size = address_of(sought), sought.size
    found = kernels._search(address_of(memory), PAGE_BYTES, 1, form.short, False, np.uint64(0), at, size)
    assert found == 1  # below the key sought
