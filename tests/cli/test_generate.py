"""`semistream generate`: files, notes and errors of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.command_line import assert_explained, semistream

from semistream.cli.main import main, parser
from semistream.workloads.cloud import CloudReports, ReportConfig
from semistream.workloads.cloud_format import format_reports
from semistream.workloads.registry import KINDS

SMALL = {
    "tpch": ("--scale", "0.002", "--skew", "0.9"),
    "cloud": ("--table-rows", "3000", "--stations", "50"),
}


def generate(kind: str, directory: Path, *options: str) -> int:
    return main(["generate", kind, "--out", str(directory), *options])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = SMALL.get(kind, ("--keys", "3000"))
    assert generate(kind, tmp_path / "w", *options, "--rows", "2500", "--batch-rows", "1000") == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"generated {kind}: " in said.out
    assert "2,500 rows in" in said.out
    stream = sorted((tmp_path / "w" / "stream").iterdir())
    assert [pq.read_metadata(file).num_rows for file in stream] == [1000, 1000, 500]
    note = json.loads((tmp_path / "w" / "_workload.json").read_text())
    assert note["complete"] is True
    assert note["kind"] == kind
    assert note["stream"]["key"] in pq.read_schema(stream[0]).names
    assert ("arrival_s" in pq.read_schema(stream[0]).names) == (kind == "bursty")


def test_through_the_installed_command_and_twice_the_same(tmp_path: Path) -> None:
    command = ("--keys", "1000", "--skew", "0.5", "--seed", "7", "--rows", "5000", "--arrivals", "poisson")
    for name in ("a", "b"):
        ran = semistream("generate", "zipf", "--out", tmp_path / name, *command)
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr == ""
        assert "5,000 rows" in ran.stdout
    for side in ("table", "stream"):
        assert pq.read_table(tmp_path / "a" / side).equals(pq.read_table(tmp_path / "b" / side))
    assert "arrival_s" in pq.read_table(tmp_path / "a" / "stream").column_names


def test_options_reach_the_rows(tmp_path: Path) -> None:
    options = (
        "--keys",
        "100",
        "--rows-per-key",
        "5",
        "--absent",
        "0.25",
        "--row-bytes",
        "64",
        "--rows",
        "4000",
    )
    assert generate("many-to-many", tmp_path, *options) == 0
    table = pq.read_table(tmp_path / "table")
    assert table.num_rows == 500
    assert len(table["payload"][0].as_py()) == 64 - 12
    missing = ~np.isin(pq.read_table(tmp_path / "stream")["key"].to_numpy(), table["key"].to_numpy())
    assert missing.mean() == pytest.approx(0.25, abs=0.03)


def test_real_cloud_files(tmp_path: Path) -> None:
    for name, side in (("APR82L", "table"), ("DEC81L", "stream")):
        reports = CloudReports(ReportConfig(side=side, stations=20)).read(0, 600)  # type: ignore[arg-type]
        (tmp_path / name).write_bytes(format_reports(reports))
    files = ("--table-files", str(tmp_path / "APR82L"), "--stream-files", str(tmp_path / "DEC81L"))
    assert generate("cloud", tmp_path / "w", *files) == 0
    assert pq.read_table(tmp_path / "w" / "stream").num_rows == 600


def test_a_directory_of_others_is_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    ran = semistream("generate", "zipf", "--out", tmp_path, "--keys", "10", "--rows", "10")
    assert_explained(ran, "not empty", "--overwrite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.txt"]
    assert generate("zipf", tmp_path, "--keys", "10", "--rows", "10", "--overwrite") == 0
    assert (tmp_path / "thesis.txt").exists()
    assert generate("zipf", tmp_path, "--keys", "10", "--rows", "10") == 0, "by now it is our own"


@pytest.mark.parametrize(
    ("kind", "options", "part"),
    [
        ("zipf", ("--skew", "-1"), "exponent"),
        ("zipf", ("--keys", "0"), "keys"),
        ("zipf", ("--rows", "0"), "rows"),
        ("zipf", ("--seed", "-1"), "seed"),
        ("zipf", ("--row-bytes", "5"), "row_bytes"),
        ("zipf", ("--arrivals", "steady", "--rate", "0"), "time step"),
        ("zipf", ("--arrivals", "steady", "--step", "-1"), "time step"),
        ("bursty", ("--burst-streams", "99"), "virtual streams"),
        ("locality", ("--intervals", "0"), "intervals"),
        ("drift", ("--period", "0"), "period"),
        ("many-to-many", ("--absent", "2"), "absent"),
        ("many-to-many", ("--absent", "0.1", "--repetition", "random"), "absent"),
        ("tpch", ("--scale", "-1"), "scale factor"),
        ("cloud", ("--table-files", "nowhere"), "nowhere"),
    ],
)
def test_bad_input_is_explained_and_leaves_no_trace(
    kind: str, options: tuple[str, ...], part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate(kind, tmp_path / "w", *options) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert part in error
    assert hint.startswith("Hint: ")
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["zipf"],
        ["zip", "--out", "x"],
        ["zipf", "--out", "x", "--keys", "many"],
        ["zipf", "--out", "x", "--order", "no"],
    ],
)
def test_wrong_usage_shows_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["generate", *arguments])
    assert stopped.value.code == 2
    assert "usage: semistream generate" in capsys.readouterr().err


def test_debug_may_stand_anywhere(tmp_path: Path) -> None:
    for arguments in (
        ["--debug", "generate", "zipf"],
        ["generate", "--debug", "zipf"],
        ["generate", "zipf", "--debug"],
    ):
        parsed = parser().parse_args([*arguments, "--out", str(tmp_path)])
        assert parsed.debug is True
    assert parser().parse_args(["generate", "zipf", "--out", str(tmp_path)]).debug is False


@pytest.mark.parametrize("kind", KINDS)
def test_help(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["generate", kind, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    for option in ("--out DIR", "--seed", "--skew", "--rows", "--batch-rows", "--overwrite", "--arrivals"):
        assert option in text
    assert "(default: None)" not in text
