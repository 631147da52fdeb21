"""`semistream simulate` and the core's benchmark through the installed command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import assert_explained, semistream

SMALL = ("--rows", "20000", "--memory-share", "0.4", "--warm-up-rows", "2000", "--stream-rows", "3000")


def test_a_run_shows_predicted_beside_measured() -> None:
    ran = semistream("simulate", *SMALL, "--algorithm", "hybridjoin", "--device", "hdd2012")
    assert ran.returncode == 0, ran.stderr
    for text in ("hybridjoin", "hdd2012", "service rate", "predicted", "processing time"):
        assert text in ran.stdout
    assert ran.stderr == ""


def test_json_and_a_schedule() -> None:
    ran = semistream("simulate", *SMALL, "--arrivals", "poisson", "--rate", "2000", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["algorithm"] == "adaptive"
    assert found["idle_s"] > 0
    assert found["rows"] >= 3_000
    assert found["rows"] / found["seconds"] == pytest.approx(2_000, rel=0.2)
    assert found["prediction"]["algorithm"] == "adaptive"


def test_the_check_writes_its_findings(tmp_path: Path) -> None:
    ran = semistream(
        "simulate", "--check-predictions", "--algorithm", "rmeshjoin", "--rows", "60000",
        "--out", tmp_path / "found.json",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["met"] == found["checked"] > 0
    assert "predicted against measured" in ran.stdout
    assert "left out" in ran.stdout  # 1 % of so small a table


def test_errors_in_words() -> None:
    assert_explained(semistream("simulate", "--algorithm", "magic"), "magic", "adaptive")
    assert_explained(semistream("simulate", "--algorithm", "inlj,meshjoin"), "one algorithm")
    assert_explained(semistream("simulate", *SMALL, "--skew", "-1"), "-1")
    assert_explained(semistream("simulate", "--rows", "1000"), "minimum")
    assert_explained(semistream("bench", "--part", "grid"), "--core")
    assert_explained(semistream("bench", "--core", "--part", "nothing"), "nothing", "grid")
    assert_explained(semistream("bench", "--core", "--large"), "--large")


def test_the_order_of_the_stream_and_what_it_costs() -> None:
    ran = semistream("simulate", *SMALL, "--algorithm", "hybridjoin", "--ordered")
    assert ran.returncode == 0, ran.stderr
    for text in ("stream's order", "output held for the order", "no model"):
        assert text in ran.stdout
