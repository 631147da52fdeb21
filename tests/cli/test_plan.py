"""`semistream plan` through the installed command: tables, JSON, samples, and errors in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.command_line import CUSTOMERS, World, assert_explained, semistream

SIZE = ("--rows", "2000000", "--row-bytes", "120")


def test_the_table_names_every_algorithm_and_recommends_one() -> None:
    ran = semistream("plan", *SIZE, "--memory", "12 MB", "--device", "nvme")
    assert ran.returncode == 0, ran.stderr
    for name in ("inlj", "meshjoin", "hybridjoin", "cmeshjoin", "ssbj", "adaptive", "exponent 1 (assumed)"):
        assert name in ran.stdout
    assert "Use adaptive: " in ran.stdout
    assert ran.stderr == ""


def test_json_holds_what_the_table_shows() -> None:
    ran = semistream(
        "plan", *SIZE, "--rate", "30000", "--skew", "0.8", "--rows-per-key", "4", "--unmatched", "0.1",
        "--device", "hdd2012", "--json",
    )  # fmt: skip
    found = json.loads(ran.stdout)
    assert (found["device"], found["rows"], found["rate"]) == ("hdd2012", 2_000_000, 30_000)
    assert (found["rows_per_key"], found["unmatched"], found["memory_bytes"]) == (4, 0.1, None)
    assert found["recommended"] == found["options"][0]["algorithm"] or found["recommended"] == "adaptive"
    assert len(found["options"]) == 11
    ssbj = next(option for option in found["options"] if option["algorithm"] == "ssbj")
    assert ssbj["prediction"]["rows_per_s"] == pytest.approx(30_000, rel=0.01)
    assert ssbj["needed_bytes"] == pytest.approx(ssbj["prediction"]["memory_bytes"])


def test_a_prepared_store_knows_its_size_and_pages(world: World) -> None:
    ran = semistream("plan", "--master", world.store, "--memory", "1 MB", "--device", "nvme", "--json")
    found = json.loads(ran.stdout)
    assert found["rows"] == CUSTOMERS
    pages = {o["prediction"]["page_bytes"] for o in found["options"] if o["prediction"] and o["needs_index"]}
    assert pages == {8192}


def test_a_path_may_be_a_url(world: World) -> None:
    texts = []
    for master in (world.store, f"file://{world.store}", f"file:{world.store}"):
        ran = semistream("plan", "--master", master, "--memory", "1 MB", "--device", "nvme", "--json")
        assert ran.returncode == 0, ran.stderr
        texts.append(ran.stdout)
    assert texts[0] == texts[1] == texts[2]
    assert_explained(semistream("plan", "--master", "s3://bucket/t", "--memory", "1 MB"), "master=", "s3")


def test_parquet_that_is_not_prepared_yet(world: World) -> None:
    ran = semistream("plan", "--master", world.table, "--memory", "1 MB", "--device", "nvme", "--no-index")
    assert ran.returncode == 0, ran.stderr
    assert f"{CUSTOMERS:,} rows" in ran.stdout
    assert "hybridjoin" not in ran.stdout


def test_a_sample_replaces_the_skew(tmp_path: Path) -> None:
    keys = np.random.default_rng(1).zipf(2.0, 20_000) % 100_000
    pq.write_table(pa.table({"user": keys, "price": np.ones(keys.size)}), tmp_path / "sample.parquet")
    ran = semistream(
        "plan",
        *SIZE,
        "--memory",
        "12 MB",
        "--device",
        "nvme",
        "--sample",
        tmp_path / "sample.parquet",
        "--key",
        "user",
    )
    assert ran.returncode == 0, ran.stderr
    assert "as a sample of 20,000 rows" in ran.stdout


def test_the_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = json.loads(semistream("plan", *SIZE, "--memory", "12 MB", "--json").stdout)
    assert first["device"] == "measured"
    (kept,) = (tmp_path / "semistream").glob("device-*.json")
    written = kept.stat().st_mtime_ns
    again = json.loads(semistream("plan", *SIZE, "--memory", "12 MB", "--json").stdout)
    assert again == first
    assert kept.stat().st_mtime_ns == written


def test_memory_below_every_minimum_is_an_answer_not_an_error() -> None:
    ran = semistream("plan", *SIZE, "--memory", "1 KiB", "--device", "nvme")
    assert ran.returncode == 0, ran.stderr
    assert "no algorithm runs in 1.0 KiB" in ran.stdout
    assert "min " in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((*SIZE, "--memory", "1 MB", "--skew", "-1"), ("skew", "-1")),
        ((*SIZE, "--device", "nvme"), ("memory, the stream's rate, or both",)),
        (("--rows", "5", "--memory", "1 MB"), ("--row-bytes",)),
        (("--rows", "0", "--row-bytes", "9", "--memory", "1 MB"), ("0 rows",)),
        (("--rows", "9", "--row-bytes", "-9", "--memory", "1 MB"), ("v_R=-9",)),
        ((*SIZE, "--memory", "much"), ("--memory", "much")),
        ((*SIZE, "--rate", "0", "--device", "nvme"), ("rows/s",)),
        ((*SIZE, "--memory", "1 MB", "--unmatched", "1"), ("without a match",)),
        ((*SIZE, "--memory", "1 MB", "--key", "user"), ("--sample",)),
        ((*SIZE, "--memory", "1 MB", "--sample", "x", "--skew", "1"), ("contradict",)),
        ((*SIZE, "--memory", "1 MB", "--sample", "missing"), ("no sample at",)),
        (("--master", "missing", "--memory", "1 MB"), ("missing", "neither")),
        ((*SIZE, "--master", "missing", "--memory", "1 MB"), ("already",)),
        ((*SIZE, "--memory", "1 MB", "--device", "nvme", "--calibrate"), ("not measured",)),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
)
def test_wrong_arguments_are_explained(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    assert_explained(semistream("plan", *arguments), *parts)
