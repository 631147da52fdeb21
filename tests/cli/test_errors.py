"""Whatever goes wrong is told in one line with a hint, and never in a traceback."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.command_line import World, assert_explained, semistream

from semistream.cli.join import parse_on
from semistream.cli.main import main


@pytest.mark.parametrize(
    "arguments",
    [[], ["info"], ["verify"], ["prepare", "a", "b"], ["join", "a", "b", "c"], ["no-such-command"]],
)
def test_wrong_usage_shows_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: semistream" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["info", "verify"])
def test_a_path_without_a_store(command: str, tmp_path: Path) -> None:
    assert_explained(semistream(command, tmp_path / "nowhere"), "nowhere", "does not exist")
    assert_explained(semistream(command, tmp_path), "holds no store")


def explained(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What the command says, run in this process: it fails before there is anything to start."""
    assert main([str(argument) for argument in arguments]) == 1
    logging.disable(logging.NOTSET)
    told = capsys.readouterr().err
    error, hint = told.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("Hint: ")
    return told


@pytest.mark.parametrize("command", ["info", "verify"])
def test_a_store_elsewhere_than_in_a_file_system(
    command: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    told = explained(capsys, command, "s3://bucket/table")
    assert "'s3'" in told
    assert "mount" in told
    assert main([command, world.store.as_uri()]) == 0
    logging.disable(logging.NOTSET)


def test_every_path_of_a_command_is_checked_alike(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    far = "s3://bucket/x"
    assert "PARQUET" in explained(capsys, "prepare", far, tmp_path / "s", "--key", "k")
    assert "STORE" in explained(capsys, "prepare", world.table, far, "--key", "k")
    for paths in ((far, world.store, "out"), (world.orders, far, "out"), (world.orders, world.store, far)):
        assert "'s3'" in explained(capsys, "join", *paths, "--on", "custkey")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value"),
    [("--batches", "0"), ("--batch-rows", "0"), ("--batch-rows", "-5"), ("--scale", "0"), ("--scale", "nan")],
)
def test_numbers_of_the_demo(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = explained(capsys, "demo", option, value, "--directory", tmp_path / "demo")
    assert f"{option} " in told
    assert "is out of range" in told
    assert not (tmp_path / "demo").exists()


def test_join_checks_its_paths_before_it_starts_spark(world: World, tmp_path: Path) -> None:
    on = ("--on", "custkey")
    assert_explained(
        semistream("join", world.orders, tmp_path / "no", tmp_path / "out", *on), "does not exist"
    )
    assert_explained(
        semistream("join", tmp_path / "no", world.store, tmp_path / "out", *on), "does not exist"
    )
    assert_explained(semistream("join", tmp_path, world.store, tmp_path / "out", *on), "no Parquet files")
    assert_explained(semistream("join", world.orders, world.store, world.orders, *on), "also an input")
    assert_explained(semistream("join", world.orders, world.store, world.table, *on), "not empty")


def test_an_output_whose_checkpoint_is_gone_is_left_alone(world: World, tmp_path: Path) -> None:
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    ran = semistream("join", world.orders, world.store, tmp_path / "out", "--on", "custkey")
    assert_explained(ran, "earlier run", "--checkpoint")


def test_prepare_without_the_key_column(world: World, tmp_path: Path) -> None:
    ran = semistream("prepare", world.table, tmp_path / "store", "--key", "customer")
    assert_explained(ran, "no key column 'customer'", "custkey, name, segment")
    assert not (tmp_path / "store").exists()


def test_prepare_keeps_a_store_that_is_there(world: World) -> None:
    ran = semistream("prepare", world.table, world.store, "--key", "custkey")
    assert_explained(ran, "already holds a master table", "overwrite")


def test_too_little_memory(world: World, tmp_path: Path) -> None:
    ran = semistream(
        "join", world.orders, world.store, tmp_path / "out", "--on", "custkey", "--memory", "10 KiB"
    )
    assert_explained(ran, "too little", "the minimum is")
    assert not (tmp_path / "out").exists()


def test_a_damaged_page_is_named_and_never_joined_and_the_join_goes_on_when_it_is_restored(
    world: World, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    shutil.copytree(world.store, store)
    damaged = sorted(store.rglob("*.pages"))[1]
    content = bytearray(damaged.read_bytes())
    content[2 * 8192 + 8000] ^= 1
    damaged.write_bytes(content)

    assert_explained(semistream("verify", store), damaged.name, "page 2 ")

    ran = semistream("join", world.orders, store, tmp_path / "out", "--on", "custkey", "--memory", "4 MiB")
    assert_explained(ran, damaged.name, "page 2 ")
    assert not list((tmp_path / "out" / "_spark_metadata").glob("[0-9]*")), "no batch was committed"

    shutil.copy(world.store / damaged.relative_to(store), damaged)
    again = semistream("join", world.orders, store, tmp_path / "out", "--on", "custkey", "--memory", "4 MiB")
    assert again.returncode == 0, again.stderr
    assert "into 5,000 in 1 batch(es)" in again.stdout


def test_every_damaged_file_is_named(world: World, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(world.store, store)
    first, second = sorted(store.rglob("*.pages"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-100])
    ran = semistream("verify", store)
    assert ran.returncode == 1
    assert first.name in ran.stderr
    assert second.name in ran.stderr
    assert ran.stderr.count("Hint: ") == 1


def test_without_pyspark_what_needs_no_spark_works_and_the_rest_says_so(world: World) -> None:
    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        code = "import sys; sys.modules['pyspark'] = None; from semistream.cli.main import main; sys.exit(main())"
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert run("info", world.store).returncode == 0
    assert run("verify", world.store).returncode == 0
    assert_explained(
        run("join", world.orders, world.store, world.root / "out", "--on", "custkey"),
        "PySpark",
        "pip install",
    )


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    for arguments in (["--debug", "info", tmp_path], ["info", tmp_path, "--debug"]):
        ran = semistream(*arguments)
        assert ran.returncode == 1
        assert "Traceback (most recent call last)" in ran.stderr


@pytest.mark.parametrize(
    ("options", "on"),
    [
        (["a"], ["a"]),
        (["a,b"], ["a", "b"]),
        (["a", "b"], ["a", "b"]),
        (["a=x,b"], {"a": "x", "b": "b"}),
    ],
)
def test_on(options: list[str], on: list[str] | dict[str, str]) -> None:
    assert parse_on(options) == on
