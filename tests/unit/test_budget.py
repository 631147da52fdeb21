"""The budget: never above its total, refusals say who holds what, sizes are read as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.budget import MemoryBudget, format_bytes, parse_bytes
from semistream.errors import BudgetError


@given(
    total=st.integers(0, 1000),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 600)), max_size=30),
)
def test_any_sequence_of_resizes_obeys_the_total(total: int, steps: list[tuple[int, int]]) -> None:
    budget = MemoryBudget(total)
    parts = [budget.reserve(f"part {i}", 0) for i in range(4)]
    model = [0, 0, 0, 0]
    peak = 0
    for which, size in steps:
        fits = sum(model) - model[which] + size <= total
        if fits:
            parts[which].resize(size)
            model[which] = size
        else:
            with pytest.raises(BudgetError):
                parts[which].resize(size)
        peak = max(peak, sum(model))
        assert [part.size_bytes for part in parts] == model
        assert (budget.held_bytes, budget.left_bytes, budget.peak_bytes) == (
            sum(model),
            total - sum(model),
            peak,
        )
        budget.check_invariants()


def test_a_refusal_says_what_was_asked_what_is_left_and_who_holds_it() -> None:
    budget = MemoryBudget(10_000)
    budget.reserve("waiting room", 6_000)
    with pytest.raises(BudgetError) as caught:
        budget.reserve("front stage", 5_000)
    text = str(caught.value)
    for part in ("'front stage'", "5,000", "4,000", "10,000", "waiting room 6,000", "Hint:"):
        assert part in text
    assert budget.held_bytes == 6_000
    assert budget.by_name() == {"waiting room": 6_000}


def test_the_last_byte_can_be_had_and_one_more_cannot() -> None:
    budget = MemoryBudget(100)
    held = budget.reserve("held", 40)
    budget.reserve("rest", 60)
    with pytest.raises(BudgetError):
        held.resize(41)
    with pytest.raises(BudgetError):
        budget.reserve("more", 1)
    assert (budget.held_bytes, budget.left_bytes) == (100, 0)


def test_shrinking_is_always_allowed_and_the_peak_remains() -> None:
    budget = MemoryBudget(100)
    room = budget.reserve("room", 100)
    room.resize(0)
    assert (budget.held_bytes, budget.peak_bytes) == (0, 100)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (1, 1),
        (67108864, 67108864),
        ("8 KiB", 8192),
        ("8KIB", 8192),
        ("  64 MiB ", 64 << 20),
        ("1.5GB", 1_500_000_000),
        ("1.5 GiB", 3 << 29),
        ("64m", 64 << 20),
        ("2k", 2048),
        ("3g", 3 << 30),
        ("100 kb", 100_000),
        ("512", 512),
        ("512 B", 512),
        ("1_000", 1000),
        ("1,000 B", 1000),
        ("1 TiB", 1 << 40),
    ],
)
def test_sizes_as_people_write_them(text: int | str, expected: int) -> None:
    assert parse_bytes(text, name="memory") == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "MiB", "64 Mibs", "-1", "-5 MiB", 0, -3, "0", "nan", "inf", "1e400", "1 2", "0x10"),
        *("8 KiB KiB", True, None, 2**62, "4194304 TiB", "0.2 B"),
    ],
)
def test_what_is_no_size_is_refused_by_name(text: object) -> None:
    with pytest.raises(BudgetError, match="memory=") as caught:
        parse_bytes(text, name="memory")  # type: ignore[arg-type]
    assert "64 MiB" in str(caught.value)


@given(size=st.integers(1, 2**53))
def test_whole_numbers_stay_exact(size: int) -> None:
    assert parse_bytes(size, name="memory") == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes_as_people_read_them(size: int, text: str) -> None:
    assert format_bytes(size) == text
