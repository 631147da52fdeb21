"""The kernels that estimate how dense a key is, against slow, obvious twins."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.twins import EDGES, ROWS_PER_DRAIN, SLOT_BYTES, WINDOW_ROWS, SketchTwin, bin_of_entry, bin_twin

from semistream.core.arrow import address_of
from semistream.front_stage import _sketch_kernels as kernels

seeds = st.integers(0, 2**32 - 1)


@given(value=st.floats(-1, 1e300) | st.floats(0, 1e-60) | st.sampled_from(EDGES[16:]))
def test_bins_are_sixteenths_between_powers_of_two(value: float) -> None:
    for each in (value, math.nextafter(value, -1)):
        assert kernels.bin_of(each) == bin_twin(each)


@given(seed=seeds, lines=st.sampled_from([1, 2, 7]))
def test_the_sketch_counts_as_its_slow_twin(seed: int, lines: int) -> None:
    rng, memory, twin = Random(seed), np.zeros(64 * lines, np.uint8), SketchTwin(lines)
    keys = [rng.getrandbits(64) for _ in range(40)]
    for _ in range(60):
        key, increment, floor = rng.choice(keys), rng.choice([0, 1, 2, 20]), rng.choice([0, 0, 5, 15])
        found = kernels.sketch_raise(address_of(memory), lines, np.uint64(key), increment, floor)
        assert found == twin.raised(key, increment, floor)
        if rng.random() < 0.05:
            kernels.halve_sketch(address_of(memory), lines)
            twin.halve()
    assert memory.tobytes() == twin.to_bytes()


@pytest.mark.parametrize("bar", [0, bin_of_entry(4 * 15, 100), bin_of_entry(4 * 4, 60)])
@given(seed=seeds)
def test_sketch_and_filter_lets_through_what_may_be_above_the_bar(bar: int, seed: int) -> None:
    rng, lines = Random(seed), 3
    memory, twin = np.zeros(64 * lines, np.uint8), SketchTwin(lines)
    for _ in range(3):
        hashes = [rng.getrandbits(64) >> rng.choice([0, 60]) for _ in range(30)]
        sightings, sizes = (
            [rng.choice([1, 2, 14, 15, 16, 300]) for _ in hashes],
            [rng.choice([30, 60, 100, 900]) for _ in hashes],
        )
        estimates, chosen = np.zeros(30, np.int64), np.zeros(30, np.bool_)
        total = kernels.sketch_and_filter(
            address_of(memory), lines, np.array(hashes, np.uint64), np.array(sightings),
            np.array(sizes) + SLOT_BYTES, ROWS_PER_DRAIN, WINDOW_ROWS, bar, estimates, chosen,
        )  # fmt: skip
        expected = [twin.raised(key, min(n, 15), 0) for key, n in zip(hashes, sightings, strict=True)]
        expected = [max(e, n) if e == 15 else e for e, n in zip(expected, sightings, strict=True)]
        assert estimates.tolist() == expected
        dense = [bin_of_entry(4 * e, size) > bar for e, size in zip(expected, sizes, strict=True)]
        assert chosen.tolist() == [bar == 0 or each for each in dense]
        assert total == sum(min(n, 15) for n in sightings)
    assert memory.tobytes() == twin.to_bytes()
