"""Fences: every page that holds a key is found, and hardly any other."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores import shard_files
from tests.strategies import column

from semistream.core.keys import KeyEncoder
from semistream.master_table.builder import build_store
from semistream.master_table.fences import Fences
from semistream.master_table.page_store import MasterTable


def pages_of_rows(table: MasterTable) -> list[int]:
    """The page of each row, read off the row counts in the pages' headers."""
    content = shard_files(table.path)[0].read_bytes()
    counts = [
        struct.unpack_from("<I", content, page * table.page_bytes + 8)[0] for page in range(table.pages)
    ]
    return [page for page, count in enumerate(counts) for _ in range(count)]


def check_against_slow_twin(
    table: MasterTable, kind: pa.DataType, held: list[object], asked: list[object]
) -> None:
    encoder = KeyEncoder([kind])
    held_bytes = sorted(encoder.encode([column(kind, held)]).to_binary().to_pylist())
    pages: dict[bytes, list[int]] = {}
    for key, page in zip(held_bytes, pages_of_rows(table), strict=True):
        pages.setdefault(key, []).append(page)
    keys = encoder.encode([column(kind, asked)])
    keys = keys.take(keys.sort_order())
    reader = table.open_shard(0)
    first, last = reader.fences.locate(keys)
    reader.close()
    for key, low, high in zip(keys.to_binary().to_pylist(), first.tolist(), last.tolist(), strict=True):
        assert -1 <= high < table.pages
        assert low >= 0
        if key in pages:
            assert (low, high) == (min(pages[key]), max(pages[key]))
        else:
            assert high - low < 1  # at most one page, where it would stand


# Rows of a quarter page: a page holds three, so keys with many rows span pages.
PAYLOAD = "x" * 120


def build(path: Path, kind: pa.DataType, held: list[object]) -> MasterTable:
    rows = pa.table({"k": column(kind, held), "v": pa.array([PAYLOAD] * len(held), pa.string())})
    return build_store(rows, path, key="k", page_size=512)


@given(
    held=st.lists(st.integers(0, 12) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=40),
    asked=st.lists(st.integers(-1, 13) | st.sampled_from([-(2**63), 2**63 - 1]), min_size=1, max_size=20),
)
def test_fixed_width_keys(
    tmp_path_factory: pytest.TempPathFactory, held: list[int], asked: list[int]
) -> None:
    table = build(tmp_path_factory.mktemp("store") / "s", pa.int64(), held)
    check_against_slow_twin(table, pa.int64(), held, asked)


# Keys that share long beginnings: their separators are cut off late, early, or not at all.
ALIKE = st.one_of(
    st.text("ab", max_size=3),
    st.text("ab", max_size=3).map(lambda tail: "same beginning " + tail),
    st.sampled_from(
        ["", "\x00", "\x00\x00", "same beginning", "same", "\U0001f600", "aaaaaaaa", "aaaaaaaab"]
    ),
)


@given(held=st.lists(ALIKE, max_size=40), asked=st.lists(ALIKE, min_size=1, max_size=20))
def test_keys_of_any_length(
    tmp_path_factory: pytest.TempPathFactory, held: list[str], asked: list[str]
) -> None:
    table = build(tmp_path_factory.mktemp("store") / "s", pa.string(), held)
    check_against_slow_twin(table, pa.string(), held, asked)


def test_one_key_over_many_pages_and_batches(tmp_path: Path) -> None:
    held = ["a"] * 5 + ["b"] * 300 + ["c"] * 2
    table = build(tmp_path / "s", pa.string(), held)
    assert table.pages > 100
    check_against_slow_twin(table, pa.string(), held, ["", "a", "aa", "b", "bb", "c", "d"])


def test_separators_are_short_where_keys_allow_it(tmp_path: Path) -> None:
    held = [f"{i:03d}-{'long tail ' * 5}" for i in range(200)]
    table = build(tmp_path / "s", pa.string(), held)
    # Three digits tell the pages apart; the tails need not stay in memory (offset 4, flag 1).
    assert table.fence_bytes([0]) <= table.pages * (3 + 4 + 1) + 4


@pytest.mark.parametrize("fixed", [True, False])
def test_what_cannot_be_fences_is_refused(fixed: bool) -> None:
    with pytest.raises(ValueError, match=r"."):
        Fences.from_bytes(np.zeros(16 + 3 if fixed else 13, np.uint8), pages=3, fixed=fixed)


def test_falling_offsets_are_refused() -> None:
    offsets = np.array([0, 9, 4], np.uint32).view(np.uint8)
    content = np.concatenate([offsets, np.zeros(4 + 2, np.uint8)])
    with pytest.raises(ValueError, match="offsets"):
        Fences.from_bytes(content, pages=2, fixed=False)
