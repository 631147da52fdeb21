"""Each kernel of the density front stage against a slow, obvious twin of dicts, lists and `struct`."""

from __future__ import annotations

import struct
from collections import Counter
from itertools import pairwise, takewhile
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests import twins
from tests.oracle import MASK
from tests.twins import I64, U64, Bytes, Entry, Shape, bin_of_entry, guarded, hash_of, i64, key_arrays

from semistream.core.arrow import address_of
from semistream.core.contracts import MISS, NULL_KEY
from semistream.front_stage import _kernels as kernels
from semistream.front_stage import _sketch_kernels as sketches

UNTOUCHED = 0xA5

seeds = st.integers(0, 2**32 - 1)
shapes = st.sampled_from([(1, 0, 2), (9, 0, 4), (1, 1, 2), (6, 2, 4)])


class Table:
    """An arena with its slots, filled and asked through the kernels."""

    def __init__(self, *, fixed: bool, shape: Shape, slot_count: int = 64, position_bits: int = 20) -> None:
        self.fixed, self.shape = fixed, shape
        self.arena = np.full(1 << 14, UNTOUCHED, np.uint8)
        self.slots = np.zeros(slot_count, np.uint32)
        self.position_bits = position_bits
        self.state = np.zeros(3, np.int64)  # tail, entries, rows
        self.place = address_of(self.arena), address_of(self.slots), slot_count, position_bits

    @property
    def memory(self) -> bytes:
        return self.arena[: self.state[0]].tobytes()

    def entries(self) -> list[Entry]:
        return twins.parse(self.memory, self.fixed, self.shape)

    def _keys(self, keys: list[bytes]) -> tuple[U64, I64, Bytes]:
        return key_arrays([key[::-1] for key in keys] if self.fixed else keys, self.fixed)

    def probe(
        self, keys: list[bytes], hashes: list[int], valid: list[bool], start: int, misses_max: int
    ) -> tuple[list[int], list[int]]:
        """(the answers; rows with a match, rows known to have none, null keys)"""
        (prefix, offsets, data), out = self._keys(keys), np.full(len(keys) - start, -9, np.int64)
        probed, *counts = kernels.probe(
            *self.place, self.fixed, prefix, np.array(valid, np.bool_), np.array(hashes, np.uint64), offsets,
            address_of(data), start, misses_max, out,
        )  # fmt: skip
        assert (out[probed:] == -9).all()
        return out[:probed].tolist(), counts

    def insert(
        self, keys: list[bytes], hashes: list[int], rows: list[list[bytes]], estimates: list[int],
        *, room: int = 1 << 14, slot_limit: int = 1 << 20, bar: int = 0, size_limit: int = 1 << 21,
    ) -> tuple[list[bool], int]:  # fmt: skip
        """(which keys were inserted, how many were refused); the rows are written where the kernel says."""
        (prefix, offsets, data), flat = self._keys(keys), [row for each in rows for row in each]
        rows_at, inserted = np.zeros(len(flat), np.int64), np.ones(len(keys), np.bool_)
        arena, slots, slot_count, position_bits = self.place
        placed, refused = kernels.insert(
            arena, room, slots, slot_count, position_bits, slot_limit, self.state,
            self.fixed, prefix, np.array(hashes, np.uint64), offsets, address_of(data),
            i64(map(len, rows)), i64(sum(map(len, each)) for each in rows), i64(estimates),
            *twins.DENSITY[:2], bar, size_limit, twins.SLOT_BYTES, rows_at, i64(map(len, flat)), inserted,
        )  # fmt: skip
        kept = [row for each, ok in zip(rows, inserted, strict=True) if ok for row in each]
        assert placed == len(kept)
        for at, row in zip((rows_at[:placed] - arena).tolist(), kept, strict=True):
            self.arena[at : at + len(row)] = np.frombuffer(row, np.uint8)
        return inserted.tolist(), int(refused)


FREQUENCIES = [0, 1, 1, 2, 3, 9, 15, 15, 200, 1022, 1023, 1024, 5000]


def random_keys(rng: Random, fixed: bool, count: int) -> list[bytes]:
    numbers = rng.sample(range(60), count)
    return [struct.pack("<Q", n) if fixed else b"key " * (n % 4) + b"%d" % n * (n > 0) for n in numbers]


def random_rows(rng: Random, shape: Shape) -> list[bytes]:
    return [twins.random_row(rng, shape) for _ in range(rng.choice([0, 1, 1, 2, 5]))]


def filled_table(rng: Random, *, fixed: bool, shape: Shape) -> Table:
    table = Table(fixed=fixed, shape=shape, position_bits=rng.choice([13, 20, 31]))
    keys = random_keys(rng, fixed, rng.choice([0, 1, 3, 20]))
    rows = [random_rows(rng, shape) for _ in keys]
    table.insert(keys, [hash_of(key, fixed) for key in keys], rows, [rng.choice(FREQUENCIES) for _ in keys])
    return table


def insert_twin(
    model: dict[bytes, tuple[int, list[bytes]]], keys: list[bytes], rows: list[list[bytes]],
    estimates: list[int], *, fixed: bool, room: int, slot_limit: int, bar: int, size_limit: int,
) -> tuple[list[bool], int]:  # fmt: skip
    def size(key: bytes, own: list[bytes]) -> int:
        return -(-(4 + len(key) + 4 * (not fixed) + sum(map(len, own))) // 4) * 4

    inserted, refused = [], 0
    for key, own, estimate in zip(keys, rows, estimates, strict=True):
        dense = bar == 0 or bin_of_entry(4 * estimate, size(key, own)) > bar
        tail = sum(size(held, theirs) for held, (_, theirs) in model.items())
        fits = tail + size(key, own) <= room and len(model) < slot_limit
        wanted = dense and size(key, own) <= size_limit
        inserted.append(wanted and fits)
        refused += wanted and not fits
        if inserted[-1]:
            model[key] = (min(4 * estimate, 4095), own)
    return inserted, refused


@given(seed=seeds, fixed=st.booleans(), shape=shapes, alike=st.sampled_from([0, 0, MASK, MASK - 0xFFFF]))
def test_insert_and_probe_are_a_dictionary(seed: int, fixed: bool, shape: Shape, alike: int) -> None:
    """Also where hashes collide: `alike` sets the bits that all of them share."""
    rng = Random(seed)
    slot_count = rng.choice([16, 17, 64])
    table = Table(fixed=fixed, shape=shape, slot_count=slot_count, position_bits=rng.choice([13, 31]))
    model: dict[bytes, tuple[int, list[bytes]]] = {}
    for _ in range(3):
        keys = [key for key in random_keys(rng, fixed, 12) if key not in model]
        rows, estimates = [random_rows(rng, shape) for _ in keys], [rng.choice(FREQUENCIES) for _ in keys]
        limits = {
            "room": rng.choice([300, 1500, 1 << 14]), "slot_limit": rng.choice([9, slot_count - 1]),
            "bar": rng.choice([0, bin_of_entry(60, 40)]), "size_limit": rng.choice([64, 1 << 20]),
        }  # fmt: skip
        hashes = [hash_of(key, fixed) | alike for key in keys]
        found = table.insert(keys, hashes, rows, estimates, **limits)
        assert found == insert_twin(model, keys, rows, estimates, fixed=fixed, **limits)

        asked = [rng.choice([*keys, *model, *random_keys(rng, fixed, 1)]) for _ in range(20)]
        valid = [rng.random() < 0.9 for _ in asked]
        at = {entry.key: table.place[0] + entry.at for entry in table.entries()}
        start, misses_max = rng.choice([0, 0, 7, 20]), rng.choice([1, 3, 99])
        hashes = [hash_of(key, fixed) | alike for key in asked]
        answers, counts = table.probe(asked, hashes, valid, start, misses_max)
        expected = [at.get(k, MISS) if ok else NULL_KEY for k, ok in zip(asked, valid, strict=True)][start:]
        missed = [i for i, answer in enumerate(expected) if answer == MISS]
        stop = start + (missed[misses_max - 1] + 1 if len(missed) >= misses_max else len(expected))
        assert answers == expected[: stop - start]
        hits = [
            key for key, ok in zip(asked[start:stop], valid[start:stop], strict=True) if ok and key in model
        ]
        present = sum(bool(model[key][1]) for key in hits)
        assert counts == [present, len(hits) - present, valid[start:stop].count(False)]
        for key in hits:
            quarters, own = model[key]
            model[key] = (quarters + 4 if quarters + 4 <= 4095 else quarters, own)
        entries = table.entries()
        assert {entry.key: (entry.quarters, entry.rows) for entry in entries} == model
        assert table.state.tolist() == [len(table.memory), len(model), sum(len(e.rows) for e in entries)]
        assert (table.arena[table.state[0] :] == UNTOUCHED).all()
        places = [(hash_of(entry.key, fixed) | alike, entry.at) for entry in entries]
        assert table.slots.tolist() == twins.slots_twin(places, slot_count, table.position_bits)


def test_a_key_with_more_rows_than_the_header_counts_is_not_wanted() -> None:
    table, row = Table(fixed=True, shape=(1, 0, 2)), b"\x00"
    for count, refused in ((kernels.ROWS_MAX, 1), (kernels.ROWS_MAX + 1, 0)):
        assert table.insert([b"key 0000"], [1], [[row] * count], [1]) == ([False], refused)


@given(seed=seeds, fixed=st.booleans(), shape=shapes, halve=st.booleans())
def test_weigh_adds_up_the_bytes_of_each_bin(seed: int, fixed: bool, shape: Shape, halve: bool) -> None:
    table = filled_table(Random(seed), fixed=fixed, shape=shape)
    before = table.entries()
    aged = [e._replace(quarters=e.quarters // 2 if halve else e.quarters) for e in before]
    bytes_in_bin = np.full(sketches.BINS, 3, np.int64)  # it adds to what is there
    kernels.weigh(
        address_of(table.arena), int(table.state[0]), fixed, *shape, halve, *twins.DENSITY, bytes_in_bin
    )  # fmt: skip
    assert table.entries() == aged
    expected: Counter[int] = Counter()
    for entry in aged:
        expected[bin_of_entry(entry.quarters, entry.size)] += entry.size
    assert {i: int(n) - 3 for i, n in enumerate(bytes_in_bin) if n != 3} == expected


@given(seed=seeds, fixed=st.booleans(), shape=shapes)
def test_compact_keeps_the_densest_and_remembers_the_rest(seed: int, fixed: bool, shape: Shape) -> None:
    rng = Random(seed)
    table, sketch, lines = filled_table(rng, fixed=fixed, shape=shape), np.zeros(64 * 3, np.uint8), 3
    entries, memory, twin = table.entries(), table.memory, twins.SketchTwin(lines)
    place = {entry.at: bin_of_entry(entry.quarters, entry.size) for entry in entries}
    bar = rng.choice([0, *place.values(), max(place.values(), default=0) + 1])
    left = bar_room = rng.choice([0, 40, sum(e.size for e in entries if place[e.at] == bar), 1 << 14])
    kept = []
    for entry in entries:
        if place[entry.at] == bar and entry.size <= left:
            left -= entry.size
            kept.append(entry)
        elif place[entry.at] > bar:
            kept.append(entry)
        else:
            twin.raised(hash_of(entry.key, fixed), 0, min(entry.quarters // 4, 15))
    kernels.compact(
        address_of(table.arena), table.state, fixed, *shape, *twins.DENSITY, bar, bar_room, address_of(sketch), lines
    )  # fmt: skip
    assert table.memory == b"".join(memory[entry.at : entry.at + entry.size] for entry in kept)
    assert table.state.tolist() == [len(table.memory), len(kept), sum(len(entry.rows) for entry in kept)]
    assert sketch.tobytes() == twin.to_bytes()


@given(seed=seeds, fixed=st.booleans(), shape=shapes, slot_count=st.sampled_from([21, 64]))
def test_rebuilt_slots_are_the_entries(seed: int, fixed: bool, shape: Shape, slot_count: int) -> None:
    table = filled_table(Random(seed), fixed=fixed, shape=shape)
    slots = np.full(slot_count, 0xDEADBEEF, np.uint32)
    kernels.rebuild_slots(
        table.place[0], len(table.memory), address_of(slots), slot_count, table.position_bits, fixed, *shape
    )  # fmt: skip
    places = [(hash_of(entry.key, fixed), entry.at) for entry in table.entries()]
    assert slots.tolist() == twins.slots_twin(places, slot_count, table.position_bits)


def is_sound_twin(
    memory: bytes, slots: list[int], bits: int, entries: int, rows: int, fixed: bool, shape: Shape
) -> bool:
    try:
        found = twins.parse(memory, fixed, shape)
    except ValueError:
        return False
    return (
        (len(found), sum(len(entry.rows) for entry in found)) == (entries, rows)
        and sum(slot != 0 for slot in slots) == entries < len(slots)
        and all(leads_to(hash_of(entry.key, fixed), entry.at, slots, bits) for entry in found)
    )


def leads_to(hashed: int, offset: int, slots: list[int], bits: int) -> bool:
    """Does a probe for this hash meet the slot of the entry at `offset` before a free one?"""
    first = hashed * len(slots) >> 64
    wanted = hashed % (1 << (32 - bits)) << bits | (offset // 4 + 1)
    met = takewhile(bool, slots[first:] + slots[:first])
    return wanted in met


@given(seed=seeds, fixed=st.booleans(), shape=shapes)
def test_only_what_holds_together_is_sound(seed: int, fixed: bool, shape: Shape) -> None:
    rng = Random(seed)
    table = filled_table(rng, fixed=fixed, shape=shape)
    memory, slots, bits = table.memory, table.slots.tolist(), table.position_bits
    _, entries, rows = table.state.tolist()

    def check(memory: bytes, slots: list[int], entries: int = entries, rows: int = rows) -> bool:
        arena, words = guarded(memory), guarded(np.array(slots, np.uint32).tobytes())
        found = kernels.is_sound(
            address_of(arena), len(memory), entries, rows, address_of(words), len(slots), bits, fixed, *shape
        )
        assert found == is_sound_twin(memory, slots, bits, entries, rows, fixed, shape)
        return bool(found)

    assert check(memory, slots)
    for off in (-1, 1):
        assert not check(memory, slots, entries + off)
        assert not check(memory, slots, rows=rows + off)
    used = [i for i, slot in enumerate(slots) if slot]
    assert not check(memory, [*slots, len(memory) // 4 + 1])  # one slot more, behind the tail
    for i, j in pairwise(used):  # a key without an entry, and another one with two
        assert not check(memory, [slots[i] if k == j else slot for k, slot in enumerate(slots)])
    for i in used[:3]:
        assert not check(memory, [slot if j != i else 0 for j, slot in enumerate(slots)])
        assert not check(memory, [slot if j != i else len(memory) // 4 + 1 for j, slot in enumerate(slots)])
        assert not check(memory, [slots[j] for j in used])  # none is free: a probe would never end
    for at in rng.sample(range(0, len(memory), 4), min(12, len(memory) // 4)):
        assert not check(memory[:at], slots)
        for word in (0, 0xFFFFFFFF, 0x00FFFFFF, rng.getrandbits(32)):
            check(memory[:at] + struct.pack("<I", word) + memory[at + 4 :], slots)
    for entry in rng.sample(table.entries(), min(3, entries)):
        for count in (len(entry.rows) + 1, max(0, len(entry.rows) - 1)):
            word = count << 12 | entry.quarters
            check(memory[: entry.at] + struct.pack("<I", word) + memory[entry.at + 4 :], slots)
