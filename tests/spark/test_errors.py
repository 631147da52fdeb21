"""Bad input: an error before the query starts, in one readable sentence with a hint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import semistream as ss
from semistream.joins import minimum_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ss.MasterTable:
    master = spark.range(0, 2000).selectExpr("id as k", "concat('v', id) as v", "id as w")
    return ss.prepare(master, tmp_path_factory.mktemp("table") / "s", key="k", shards=2)


@pytest.fixture(scope="module")
def stream(spark: SparkSession) -> DataFrame:
    return spark.range(10).selectExpr("id as k", "string(id) as text", "'mine' as W")


def fails(error: type[ss.SemistreamError], *parts: str, call: Any) -> None:
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert "\nHint: " in text
    for part in parts:
        assert part in text
    assert len(text.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "parts"),
    [
        ({"how": "outer"}, ss.ConfigError, ["'outer'", "inner, left, semi, anti"]),
        ({"algorithm": "magic"}, ss.ConfigError, ["'magic'", "adaptive"]),
        ({"memory": "lots"}, ss.BudgetError, ["memory='lots'", "64 MiB"]),
        ({"memory": 0}, ss.BudgetError, ["memory=0"]),
        ({"tasks": 0}, ss.ConfigError, ["tasks=0"]),
        ({"on": "missing"}, ss.SchemaError, ["missing", "its key is k"]),
        ({"on": {"nope": "k"}}, ss.SchemaError, ["the stream has no column 'nope'", "k, text, W"]),
        ({"on": {"text": "k"}}, ss.SchemaError, ["'text' is string", "'k' is int64", "cast"]),
        ({"on": []}, ss.SchemaError, ["its key is k"]),
        ({"on": ["k", "text"]}, ss.SchemaError, ["its key is k"]),
        ({"on": {"k": "k", "text": "k"}}, ss.SchemaError, ["its key is k"]),
        ({"columns": ["zip"]}, ss.SchemaError, ["'zip'", "v, w"]),
        ({"columns": ["k"]}, ss.SchemaError, ["'k'", "the stream has already"]),
        ({}, ss.SchemaError, ["both sides have a column 'w'", "columns=", "suffix="]),
        ({"columns": ["v"], "how": "semi"}, ss.ConfigError, ["semi", "columns="]),
        ({"columns": ["v", "v"]}, ss.SchemaError, ["'v'"]),
        ({"columns": "zip"}, ss.SchemaError, ["'zip'", "v, w"]),
        ({"on": ["k", "k"]}, ss.SchemaError, ["twice"]),
    ],
)
def test_arguments_of_join(
    stream: DataFrame, table: ss.MasterTable, arguments: dict[str, Any], error: type[Any], parts: list[str]
) -> None:
    fails(error, *parts, call=lambda: ss.join(stream, table, **{"on": "k", **arguments}))


def test_a_stream_with_two_columns_of_the_keys_name(stream: DataFrame, table: ss.MasterTable) -> None:
    twice = stream.selectExpr("k", "text", "k + 1 as k")
    fails(ss.SchemaError, "2 columns 'k'", call=lambda: ss.join(twice, table, on="k", columns=["v"]))
    fails(ss.ConfigError, "shards='2'", call=lambda: ss.prepare(stream, "x", key="k", shards="2"))  # type: ignore[arg-type]


def test_too_little_memory_names_the_minimum_which_then_works(
    stream: DataFrame, table: ss.MasterTable
) -> None:
    least = minimum_bytes(table, 2)
    fails(
        ss.BudgetError, f"{least:,} bytes",
        call=lambda: ss.join(stream, table, on="k", columns=["v"], memory=least - 1, tasks=2),
    )  # fmt: skip
    assert ss.join(stream, table, on="k", columns=["v"], memory=least, tasks=2).count() == 10


@pytest.mark.parametrize(
    ("arguments", "error", "parts"),
    [
        ({"key": "missing"}, ss.SchemaError, ["'missing'", "k, text, W"]),
        ({"key": []}, ss.ConfigError, ["key"]),
        ({"key": ["k", "k"]}, ss.SchemaError, ["differ"]),
        ({"shards": 0}, ss.ConfigError, ["shards=0"]),
        ({"page_size": "3 KiB"}, ss.ConfigError, ["page_size='3 KiB'", "power of two"]),
        ({"page_size": "huge"}, ss.BudgetError, ["page_size='huge'"]),
    ],
)
def test_arguments_of_prepare(
    stream: DataFrame, tmp_path: Path, arguments: dict[str, Any], error: type[Any], parts: list[str]
) -> None:
    fails(error, *parts, call=lambda: ss.prepare(stream, tmp_path / "s", **{"key": "k", **arguments}))
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "expression",
    ["array(1)", "map('a', 1)", "named_struct('x', 1)"],
)
def test_nested_columns_hint_at_json(spark: SparkSession, tmp_path: Path, expression: str) -> None:
    frame = spark.range(1).selectExpr("id as k", f"{expression} as tags")
    fails(
        ss.SchemaError, "'tags'", "to_json('tags')", call=lambda: ss.prepare(frame, tmp_path / "s", key="k")
    )


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("interval '1' day", "interval"),
        ("double(1)", "cannot be joined on"),
        ("'a' collate UNICODE_CI", "UNICODE_CI"),
    ],
)
def test_other_columns_that_cannot_be_keys(
    spark: SparkSession, tmp_path: Path, expression: str, part: str
) -> None:
    frame = spark.range(1).selectExpr(f"{expression} as k")
    fails(ss.SchemaError, part, call=lambda: ss.prepare(frame, tmp_path / "s", key="k"))


def test_a_stream_cannot_be_prepared(spark: SparkSession, tmp_path: Path) -> None:
    rates = spark.readStream.format("rate").load()
    fails(
        ss.ConfigError, "streaming", "readStream", call=lambda: ss.prepare(rates, tmp_path / "s", key="value")
    )


def test_paths_that_are_in_the_way(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    def prepare(**more: Any) -> ss.MasterTable:
        return ss.prepare(stream, tmp_path / "s", key="k", shards=1, **more)

    (tmp_path / "s").write_text("a file")
    fails(ss.StoreError, "is a file", call=prepare)
    (tmp_path / "s").unlink()
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "precious").write_text("data")
    fails(ss.StoreError, "is not a master table", call=prepare)
    fails(ss.StoreError, "is not a master table", call=lambda: prepare(overwrite=True))
    assert (tmp_path / "s" / "precious").read_text() == "data"
    (tmp_path / "s" / "precious").unlink()
    assert prepare().rows == 10  # an empty directory is welcome
    fails(ss.StoreError, "already holds", "overwrite=True", call=prepare)
    assert prepare(overwrite=True).version == 2


def test_no_store_and_a_newer_one(stream: DataFrame, tmp_path: Path) -> None:
    fails(ss.StoreError, "does not exist", "prepare", call=lambda: ss.join(stream, tmp_path / "no", on="k"))
    fails(ss.StoreError, "holds no store", call=lambda: ss.open(tmp_path))
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 7}))
    fails(ss.StoreError, "format 7", "upgrade", call=lambda: ss.join(stream, tmp_path, on="k"))
    fails(
        ss.StoreError, "format 7",
        call=lambda: ss.prepare(stream, tmp_path, key="k", overwrite=True, shards=1),
    )  # fmt: skip


def test_a_row_wider_than_a_page(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(20).selectExpr("id as k", "repeat('x', if(id = 13, 3000, 5)) as v")

    def prepare(page_size: str) -> ss.MasterTable:
        return ss.prepare(frame, tmp_path / "s", key="k", shards=2, page_size=page_size)

    fails(ss.SchemaError, "a row takes 3,0", 'page_size="4 KiB"', call=lambda: prepare("1 KiB"))
    assert not (tmp_path / "s").exists()
    assert prepare("4 KiB").rows == 20


def test_a_failed_prepare_leaves_the_version_before(spark: SparkSession, tmp_path: Path) -> None:
    narrow = spark.range(20).selectExpr("id as k", "'x' as v")
    ss.prepare(narrow, tmp_path / "s", key="k", shards=2)
    files = sorted(path.name for path in (tmp_path / "s").glob("**/*.pages"))
    wide = spark.range(20).selectExpr("id as k", "repeat('x', 9000) as v")
    fails(
        ss.SchemaError, "a row takes",
        call=lambda: ss.prepare(wide, tmp_path / "s", key="k", shards=2, overwrite=True),
    )  # fmt: skip
    assert ss.open(tmp_path / "s").version == 1
    assert sorted(path.name for path in (tmp_path / "s").glob("**/*.pages")) == files
    assert ss.join(narrow.select("k"), tmp_path / "s", on="k", memory="4 MiB").count() == 20


def test_a_table_that_was_replaced_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    first = ss.prepare(spark.range(5).selectExpr("id as k"), tmp_path / "s", key="k", shards=1)
    frame = ss.join(spark.range(5).selectExpr("id as k"), first, on="k", memory="4 MiB")
    shutil.rmtree(tmp_path / "s")
    ss.prepare(spark.range(3).selectExpr("id as k"), tmp_path / "s", key="k", shards=1)
    with pytest.raises(Exception, match="was replaced by another one"):
        frame.count()


def test_keys_that_spark_compares_otherwise_are_refused(table: ss.MasterTable, spark: SparkSession) -> None:
    stream = spark.sql("select 'a' collate UNICODE_CI as name")
    store = ss.prepare(
        spark.sql("select 'a' as name, 1 as v"), table.path.parent / "names", key="name", shards=1
    )
    fails(
        ss.SchemaError, "'name'", "collation", "UTF8_BINARY", call=lambda: ss.join(stream, store, on="name")
    )


def test_a_stream_column_that_python_cannot_get_is_named(table: ss.MasterTable, spark: SparkSession) -> None:
    stream = spark.sql("select 1L as k, make_interval(1) as span")
    fails(ss.SchemaError, "'span'", "interval", "cast or drop", call=lambda: ss.join(stream, table, on="k"))
