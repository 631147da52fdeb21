"""Arguments of the wrong kind: a typed error that says what was asked, and never Python's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream import edge
from semistream.joins import resolve_shape
from semistream.master_table.builder import build_store
from semistream.master_table.location import local_path

TABLE = pa.table({"k": [1, 2], "v": ["a", "b"]})


class FakeFrame:
    """Enough of a DataFrame to be taken for one: the arguments beside it are checked first."""

    isStreaming = False  # noqa: N815  (Spark's name)
    sparkSession = None  # noqa: N815  (Spark's name)
    columns = ("k",)


def fails(error: type[ss.SemistreamError], *parts: str, call: Any) -> None:
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert len(text.splitlines()) == 2
    assert "\nHint: " in text
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"on": None}, ["on=None"]),
        ({"on": 5}, ["on=5"]),
        ({"on": b"k"}, ["on=b'k'"]),
        ({"on": ["k", 5]}, ["on=['k', 5]", "5, which is no column name"]),
        ({"on": {"k": 5}}, ["'k' to 5", "custkey"]),
        ({"on": {5: "k"}}, ["5 to 'k'"]),
        ({"how": ["left"]}, ["how=['left']"]),
        ({"how": None}, ["how=None"]),
        ({"algorithm": ["adaptive"]}, ["algorithm=['adaptive']"]),
        ({"columns": 5}, ["columns=5"]),
        ({"columns": ["v", None]}, ["None, which is no column name"]),
        ({"columns": {"v": "w"}}, ["columns={'v': 'w'}"]),
        ({"suffix": 5}, ["suffix=5", '"_m"']),
        ({"tasks": "2"}, ["tasks='2'", "whole number"]),
        ({"tasks": 2.0}, ["tasks=2.0"]),
        ({"tasks": True}, ["tasks=True"]),
        ({"master": None}, ["master=None is not a path"]),
        ({"master": 5}, ["master=5 is not a path"]),
        ({"stream": pa.table({"k": [1]})}, ["stream is a Table, not a Spark DataFrame"]),
    ],
)
def test_arguments_of_join(arguments: dict[str, Any], parts: list[str]) -> None:
    given = {"stream": FakeFrame(), "master": "nowhere", "on": "k", **arguments}
    fails(ss.ConfigError, *parts, call=lambda: ss.join(given.pop("stream"), given.pop("master"), **given))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"key": None}, ["key=None"]),
        ({"key": 5}, ["key=5"]),
        ({"key": ["k", 5]}, ["5, which is no column name"]),
        ({"key": {"k": "v"}}, ["key={'k': 'v'}"]),
        ({"shards": "2"}, ["shards='2'"]),
        ({"shards": 2.0}, ["shards=2.0"]),
        ({"shards": True}, ["shards=True"]),
        ({"overwrite": "no"}, ["overwrite='no'"]),
        ({"path": None}, ["path=None is not a path"]),
        ({"path": ""}, ["path='' is not a path"]),
        ({"path": b"x"}, ["path=b'x' is not a path"]),
        ({"path": "a\0b"}, ["is not a path"]),
        ({"df": [1, 2]}, ["df is a list, not a Spark DataFrame"]),
    ],
)
def test_arguments_of_prepare(tmp_path: Path, arguments: dict[str, Any], parts: list[str]) -> None:
    given = {"df": FakeFrame(), "path": tmp_path / "s", "key": "k", **arguments}
    fails(ss.ConfigError, *parts, call=lambda: ss.prepare(given.pop("df"), given.pop("path"), **given))
    assert not (tmp_path / "s").exists()


def test_arguments_of_open_and_metrics() -> None:
    fails(ss.ConfigError, "path=5", call=lambda: ss.open(5))  # type: ignore[arg-type]
    fails(ss.ConfigError, "query is a str", call=lambda: ss.metrics("query"))  # type: ignore[arg-type]


def test_what_is_of_the_right_kind_passes() -> None:
    assert edge.names("a", name="on") == ["a"]
    assert edge.names(("a", "b"), name="on") == ["a", "b"]
    assert edge.names({"a": 1}.keys(), name="on") == ["a"]
    assert edge.names(np.array(["a", "b"]), name="on") == ["a", "b"]
    assert edge.join_columns({"a": "x"}) == {"a": "x"}
    assert edge.optional_names(None, name="columns") is None
    assert edge.optional_whole_number(np.int32(3), name="tasks") == 3
    assert edge.optional_whole_number(None, name="tasks") is None


def test_a_stream_that_has_the_key_column_twice(tmp_path: Path) -> None:
    table = build_store(TABLE, tmp_path / "s", key="k")
    twice = pa.schema([("k", pa.int64()), ("x", pa.string()), ("k", pa.int64())])
    fails(
        ss.SchemaError, "2 columns 'k'", "rename or drop",
        call=lambda: resolve_shape(twice, table, on="k", how="inner", columns=None, suffix=None),
    )  # fmt: skip
    other = pa.schema([("k", pa.int64()), ("x", pa.string()), ("x", pa.int64())])
    shape = resolve_shape(other, table, on="k", how="inner", columns=None, suffix=None)
    assert shape.output_schema.names == ["k", "x", "x", "v"]


@pytest.mark.parametrize(
    "url", ["s3://bucket/x", "s3a://b", "hdfs://name:8020/x", "abfss://c@a/x", "dbfs:/x"]
)
@pytest.mark.parametrize("kind", [str, Path])
def test_storages_that_are_no_file_system_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, kind: type
) -> None:
    monkeypatch.chdir(tmp_path)
    scheme = url.partition(":")[0]
    fails(ss.ConfigError, f"of the kind '{scheme}'", "mount", call=lambda: ss.open(kind(url)))
    fails(ss.ConfigError, scheme, call=lambda: ss.join(FakeFrame(), kind(url), on="k"))  # type: ignore[arg-type]
    fails(ss.ConfigError, scheme, call=lambda: ss.prepare(FakeFrame(), kind(url), key="k"))  # type: ignore[arg-type]
    fails(ss.ConfigError, scheme, call=lambda: build_store(TABLE, kind(url), key="k"))
    assert not list(tmp_path.iterdir())


def test_urls_of_files_are_paths(tmp_path: Path) -> None:
    place = tmp_path / "with blank"
    build_store(TABLE, place.as_uri(), key="k")
    for path in (place, place.as_uri(), f"file:{place}", f"file://localhost{place}", Path(f"file://{place}")):
        assert ss.open(path).path == place
    fails(ss.ConfigError, "the host 'other'", call=lambda: ss.open("file://other/x"))
    fails(ss.ConfigError, "names no directory", call=lambda: ss.open("file:///"))


def test_names_that_only_look_like_urls_are_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a:b", "10:30/x", "x/file:/y"):
        assert local_path(name) == tmp_path / name


@pytest.mark.parametrize("below", ["s", "deeper/s"])
def test_a_parent_that_is_a_file(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("x")
    place = tmp_path / "file" / below
    fails(ss.StoreError, str(place), "Not a directory", call=lambda: build_store(TABLE, place, key="k"))
    fails(ss.StoreError, "no master table at", call=lambda: ss.open(place))


def test_a_name_too_long_for_the_file_system(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 300)
    fails(ss.StoreError, "too long", call=lambda: build_store(TABLE, place, key="k"))
    fails(ss.StoreError, "too long", call=lambda: ss.open(place))


@pytest.mark.skipif(os.getuid() == 0, reason="root may do anything")
def test_places_without_the_right_to_be_there(tmp_path: Path) -> None:
    build_store(TABLE, tmp_path / "s", key="k")
    (tmp_path / "s" / "manifest.json").chmod(0)
    fails(ss.StoreError, "Permission denied", call=lambda: ss.open(tmp_path / "s"))
    tmp_path.chmod(0o500)
    fails(ss.StoreError, "Permission denied", call=lambda: build_store(TABLE, tmp_path / "t", key="k"))
    tmp_path.chmod(0o700)
