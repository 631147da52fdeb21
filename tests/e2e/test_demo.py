"""The demo, on a table small enough for a test; and what it does where it must not succeed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import semistream

from semistream.errors import SemistreamError, StoreError


def test_the_demo_verifies_and_ends_with_its_table(tmp_path: Path) -> None:
    size = ("--scale", "0.05", "--batches", "3", "--batch-rows", "2000")
    ran = semistream("demo", "--directory", tmp_path / "demo", *size)
    assert ran.returncode == 0, ran.stderr
    assert "equal: 6,000 rows" in ran.stdout
    for row in ("rows/s", "batch latency (median)", "hit ratio", "pages read", "budget peak", "ratio"):
        assert row in ran.stdout
    assert ran.stderr == ""


def test_a_wrong_output_is_an_error() -> None:
    from semistream.spark.demo import verify_output
    from semistream.spark.demo_report import Run
    from semistream.spark.follow import Batch

    observed = {"output": {"rows": 5, "low": 7, "high": None}}
    run = Run("semistream", [Batch(batch_id=0, rows=5, seconds=1.0, join=None, observed=observed)])
    verify_output(run, (5, 7, 0))
    with pytest.raises(SemistreamError, match="the output of semistream is wrong"):
        verify_output(run, (5, 8, 0))


def test_the_demo_deletes_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    from semistream.spark.demo_data import clean_directory

    (tmp_path / "thesis.txt").touch()
    with pytest.raises(StoreError, match="not empty"):
        clean_directory(tmp_path)
    clean_directory(tmp_path / "demo")
    (tmp_path / "demo" / "customers").touch()
    clean_directory(tmp_path / "demo")
    assert not (tmp_path / "demo" / "customers").exists()
