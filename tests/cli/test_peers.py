"""`semistream bench --peers`: what it refuses, and a run of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import assert_explained, semistream


def test_options_that_do_not_fit_are_explained() -> None:
    assert_explained(semistream("bench", "--peer", "ours"), "--peers")
    assert_explained(semistream("bench", "--core", "--fresh"), "--peers")
    assert_explained(semistream("bench", "--core", "--peers"), "--core")
    assert_explained(semistream("bench", "--peers", "--part", "grid"), "--core")
    assert_explained(semistream("bench", "--peers", "--peer", "nobody"), "nobody", "rocksdb")
    assert_explained(semistream("bench", "--peers", "--memory-share", "0"), "memory")


def test_a_run_shows_a_table_and_writes_json_and_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    pytest.importorskip("duckdb", reason="duckdb is not installed; it comes with the extra `peers`")
    ran = semistream(
        "bench", "--peers", "--peer", "ours,duckdb", "--table-rows", "20000", "--batch-rows", "1000",
        "--memory-share", "1.5", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    for part in ("semistream, core", "DuckDB, Parquet", "20 k rows", "first in"):
        assert part in ran.stdout
    cells = json.loads((tmp_path / "build" / "bench-peers.json").read_text())
    assert {cell["peer"] for cell in cells} == {"ours", "duckdb"}
    assert (tmp_path / "build" / "figures" / "peers" / "rates.svg").exists()
