"""The peers' results on made-up numbers: their JSON, the sentences that follow from them, the table and the figure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from semistream.cli.peers_report import show
from semistream.peers.bench import PeersConfig, batches_of
from semistream.peers.picture import FIGURES, draw
from semistream.peers.registry import PEERS
from semistream.peers.results import Cell, latencies, read, write
from semistream.peers.verdict import counted, not_first
from semistream.peers.worker import Timed


def cell(peer: str, rows_s: float | None = 1e6, **changed: Any) -> Cell:
    made = Cell(
        peer=peer,
        family=PEERS[peer].family,
        table_rows=10_000_000,
        batch_rows=100_000,
        cache="warm",
        memory_bytes_allowed=60_000_000,
        memory_bytes_given=60_000_000,
        table_bytes=1_200_000_000,
        fits_in_memory=False,
        threads=2,
        rows_s=rows_s,
        p50_s=0.1,
        p99_s=0.2,
        batches=9,
        peak_rss_bytes=300 << 20,
        mapped_bytes=90 << 20,
        resident_share=1.0,
        warm_up_rows=20_000_000,
        load=2.0,
        notes=("a note",),
    )
    if rows_s is None:
        made = replace(made, p50_s=None, p99_s=None, batches=0, failed="it broke.")
    return replace(made, **changed)


def test_the_json_holds_every_cell_and_comes_back_as_it_was(tmp_path: Path) -> None:
    cells = [cell("ours"), cell("duckdb", cache="cold"), cell("lance", None)]
    write(tmp_path / "peers.json", cells)
    assert sorted(read(tmp_path / "peers.json"), key=str) == sorted(cells, key=str)
    assert read(tmp_path / "missing.json") == []
    for each in json.loads((tmp_path / "peers.json").read_text()):
        assert {
            "peer", "table_rows", "batch_rows", "cache", "memory_bytes_allowed", "fits_in_memory", "rows_s",
            "p50_s", "p99_s", "batches", "peak_rss_bytes", "notes",
        } <= set(each)  # fmt: skip
        assert each["cache"] in ("warm", "cold")
        assert isinstance(each["notes"], list)
        assert (each["rows_s"] is None) == (each["failed"] is not None)


def test_latencies_are_of_the_median_and_of_the_worst_batches() -> None:
    found = latencies(1000, [0.1] * 50 + [0.2] * 49 + [9.0])
    assert found["p50_s"] == pytest.approx(0.15, abs=0.051)
    assert found["rows_s"] == pytest.approx(1000 / found["p50_s"])
    assert 0.2 <= found["p99_s"] < 9.0
    assert found["batches"] == 100


def test_who_is_faster_is_named_with_how_much() -> None:
    cells = [cell("ours", 1e6), cell("rocksdb", 1.5e6), cell("duckdb", 1.2e6), cell("sqlite", 0.9e6)]
    (sentence,) = not_first(cells)
    assert sentence == (
        "10 M rows, 57.2 MiB allowed, warm, batches of 100 k (the table does not fit): semistream, core 1.00 M rows/s, "
        "behind RocksDB 1.50 M rows/s (1.50 times), DuckDB, Parquet 1.20 M rows/s (1.20 times)."
    )
    assert counted(cells) == [
        "Where the table does not fit in the memory allowed, ours without Spark is first in 0 of 1 cells."
    ]


def test_first_says_nothing_and_kinds_are_not_compared_with_each_other() -> None:
    cells = [cell("ours", 1e6), cell("sqlite", 0.9e6), cell("ours_spark", 2e5), cell("spark", 1e5)]
    assert not_first(cells) == []
    assert counted(cells) == [
        "Where the table does not fit in the memory allowed, ours without Spark is first in 1 of 1 cells.",
        "Where the table does not fit in the memory allowed, ours on Spark is first in 1 of 1 cells.",
    ]
    slower = [cell("ours", 1e6), cell("ours_spark", 2e5), cell("spark", 3e5)]
    (sentence,) = not_first(slower)
    assert "semistream on Spark 200 k rows/s, behind Spark, plain 300 k rows/s (1.50 times)." in sentence


def test_cells_are_compared_with_their_own_place_only() -> None:
    for other in (
        {"cache": "cold"},
        {"batch_rows": 1000},
        {"table_rows": 10**6},
        {"memory_bytes_allowed": 1},
    ):
        assert not_first([cell("ours", 1e6), cell("rocksdb", 2e6, **other)]) == []


def test_ours_that_did_not_run_is_not_first_and_others_that_did_not_are_not_ahead() -> None:
    (sentence,) = not_first([cell("ours", None), cell("duckdb", 1e3)])
    assert sentence.endswith("semistream, core did not run: it broke.")
    assert counted([cell("ours", None), cell("duckdb", 1e3)])[0].endswith("first in 0 of 1 cells.")
    assert not_first([cell("ours", 1.0), cell("duckdb", None)]) == []
    assert not_first([cell("duckdb", 1e3)]) == []


def test_where_the_table_fits_is_counted_apart() -> None:
    fits = {"fits_in_memory": True, "memory_bytes_allowed": 2 * 10**9}
    cells = [cell("ours"), cell("duckdb", 1.0), cell("ours", 1.0, **fits), cell("duckdb", 2.0, **fits)]
    assert [line.rpartition("first in ")[2] for line in counted(cells)] == ["1 of 1 cells.", "0 of 1 cells."]
    (sentence,) = not_first(cells)
    assert "does not fit" not in sentence


def timed(seconds: float, wall_s: float) -> Timed:
    return Timed(seconds=[seconds], resident_share=1.0, wall_s=wall_s, given_bytes=None, notes=[])


def test_slow_contestants_get_fewer_batches_and_fast_ones_not_too_many() -> None:
    config = PeersConfig(cell_s=4.0, batches_min=3, batches_max=200, slow_batch_s=8.0)
    assert batches_of(timed(0.001, 0.002), config) == 200
    assert batches_of(timed(0.1, 0.1), config) == 40
    assert batches_of(timed(0.1, 1.0), config) == 8  # most of its time is not measured
    assert batches_of(timed(5.0, 5.0), config) == 3
    assert batches_of(timed(9.0, 9.0), config) == 1


def test_the_table_shows_every_contestant_and_why_one_is_missing() -> None:
    cells = [
        replace(each, batch_rows=rows, cache=cache)
        for each in (cell("ours"), cell("duckdb", 9e5), cell("lance", None), cell("spark", 1e5))
        for rows in (1_000, 1_000_000)
        for cache in ("warm", "cold")
    ]
    out = Console(width=100)
    with out.capture() as shown:
        show(cells, out)
    text = shown.get()
    assert "…" not in text
    for part in (
        "semistream, core",
        "DuckDB, Parquet",
        "Lance, 10,000,000 rows: it broke.",
        "first in 4 of 4 cells",
    ):
        assert part in text


def test_the_figure_is_made_of_the_cells_that_ran(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    cells = [
        cell(peer, rate * rows, batch_rows=rows, cache=cache)
        for peer, rate in (("ours", 9.0), ("duckdb", 3.0), ("ours_spark", 2.0), ("spark", 1.0))
        for rows in (1_000, 1_000_000)
        for cache in ("warm", "cold")
    ]
    paths = draw([*cells, cell("lance", None)], tmp_path / "figures")
    assert sorted(path.name for path in paths) == sorted(
        f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")
    )
    draw(cells, tmp_path / "again")
    for path in paths:
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    drawn = (tmp_path / "figures" / "rates.svg").read_text()
    for part in ("semistream, core", "Spark, plain", "10 M rows, 57.2 MiB (does not fit)"):
        assert part in drawn
    assert "Lance" not in drawn
    assert draw([cell("lance", None)], tmp_path / "none") == []
