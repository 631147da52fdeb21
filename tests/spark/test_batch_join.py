"""prepare, open and join on local Spark, compared with Spark's own join: types, keys, names, tasks."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.sparks import Settings, spark_bag

import semistream as ss

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS = {
    "tinyint": "cast(n % 100 - 50 as tinyint)",
    "smallint": "cast(n * 100 - 5000 as smallint)",
    "int": "cast(n * 9973 - 500000 as int)",
    "bigint": "n * 3000000000 - 90000000000",
    "string": "concat(if(n % 3 = 0, '', 'Zoë-'), repeat('x', cast(n % 45 as int)), n)",
    "binary": "cast(concat('b', n) as binary)",
    "boolean": "n % 2 = 0",
    "date": "date_add(date'1969-06-01', cast(n as int))",
    "timestamp": "timestamp'1970-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, n * 7777.123457)",
    "timestamp_ntz": "timestamp_ntz'2024-03-31 02:30:00' + make_interval(0, 0, 0, 0, cast(n as int))",
    "decimal(9,2)": "cast(n * 1.25 - 40 as decimal(9,2))",
    "decimal(38,6)": "cast(n * 12345678901234567890.5 - 600000000000000000000 as decimal(38,6))",
    "varchar(20)": "cast(concat('v', n) as varchar(20))",
}


def keyed(spark: SparkSession, expression: str, first: int, stop: int, column: str) -> DataFrame:
    numbers = spark.range(first, stop, 1, 2).withColumnRenamed("id", "n")
    return numbers.selectExpr(f"if(n % 17 = 0, null, {expression}) as k", f"n as {column}")


@pytest.mark.parametrize("kind", KEYS)
def test_every_key_type(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    # Each key twice in the table, absent keys and nulls on both sides.
    master = keyed(spark, KEYS[kind], 1, 60, "v")
    master = master.union(master) if kind != "boolean" else master.limit(3)
    stream = keyed(spark, KEYS[kind], 30, 90, "id")
    table = ss.prepare(master, tmp_path / "s", key="k", shards=2, page_size=512)
    assert table.rows == master.where("k is not null").count()
    found = spark_bag(ss.join(stream, table, on="k", how="left", memory="4 MiB"))
    assert found == spark_bag(stream.join(master, "k", "left").select("k", "id", "v"))
    assert any(row[2] is not None for row in found)


VALUES = {
    "boolean": "n % 2 = 0",
    "tinyint": "cast(n % 100 as tinyint)",
    "smallint": "cast(-n as smallint)",
    "int": "cast(n * 1000003 as int)",
    "bigint": "n * 1000000007",
    "float": "cast(n / 7 as float)",
    "double": "case n % 5 when 0 then double('NaN') when 1 then double('-Infinity') when 2 then -0.0d else n / 3 end",
    "decimal_short": "cast(n / 8 as decimal(12,3))",
    "decimal_wide": "cast(-n * 99999999999999999999.125 as decimal(38,3))",
    "string": "repeat('ünï', cast(n % 60 as int))",
    "binary": "cast(repeat(char(cast(n % 50 as int)), cast(n % 9 as int)) as binary)",
    "date": "date_sub(date'1970-01-10', cast(n as int))",
    "timestamp": "timestamp_micros(n * 86400000001 - 3)",
    "timestamp_ntz": "cast(timestamp_micros(n * 3600000001) as timestamp_ntz)",
    "char": "cast('abc' as char(5))",
    "nothing": "cast(null as string)",
}


def with_values(spark: SparkSession, count: int) -> DataFrame:
    columns = [
        f"if(n % {11 + i} = 0, null, {text}) as v_{name}" for i, (name, text) in enumerate(VALUES.items())
    ]
    return (
        spark.range(0, count, 1, 3)
        .withColumnRenamed("id", "n")
        .selectExpr("n % 50 as a", "concat('key', n % 20) as b", *columns)
    )


@pytest.fixture(scope="module")
def wide(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, ss.MasterTable]:
    """A table of every value type with a composite key, several rows per key, its columns out of order."""
    master = with_values(spark, 300).selectExpr("v_string as first", "*").drop("v_string").cache()
    path = tmp_path_factory.mktemp("wide") / "s"
    return master, ss.prepare(master, path, key=["b", "a"], shards=3, page_size="1 KiB")


def orders(spark: SparkSession) -> DataFrame:
    return spark.range(0, 200, 1, 3).selectExpr(
        "array(id, 1) as tags",
        "if(id % 13 = 0, null, id % 70) as a",
        "id",
        "if(id % 19 = 0, null, concat('key', id % 25)) as b",
        "map('k', named_struct('x', id)) as nested",
    )


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_every_value_type_and_every_kind_of_join(
    spark: SparkSession, wide: tuple[DataFrame, ss.MasterTable], how: str
) -> None:
    master, table = wide
    stream = orders(spark)
    joined = ss.join(stream, table, on=["a", "b"], how=how, memory="8 MiB")
    # Maps cannot be compared by Spark; as text they can.
    text = ["to_json(tags) as tags", "a", "id", "b", "to_json(nested) as nested"]
    values = [name for name in master.columns if name not in ("a", "b")] if how in ("inner", "left") else []
    expected = (
        stream.selectExpr(*text)
        .join(master, ["a", "b"], how)
        .select("tags", "a", "id", "b", "nested", *values)
    )
    assert joined.columns == [*stream.columns, *values]
    assert spark_bag(joined.selectExpr(*text, *values)) == spark_bag(expected)
    kinds = dict(master.dtypes)
    assert [kind for name, kind in joined.dtypes if name in values] == [kinds[name] for name in values]


def test_open_finds_what_prepare_made(wide: tuple[DataFrame, ss.MasterTable]) -> None:
    _, table = wide
    again = ss.open(table.path)
    assert again.key == ("b", "a")
    assert (again.rows, again.shards, again.version) == (300, 3, 1)
    assert again.schema.names[:2] == ["b", "a"]
    assert again.pages > 1
    assert sum(again.verify()) == again.pages
    assert again.bytes == sum(file.stat().st_size for file in again.path.glob("shards/*/*"))


def test_a_path_instead_of_a_table(spark: SparkSession, wide: tuple[DataFrame, ss.MasterTable]) -> None:
    _, table = wide
    by_path = ss.join(orders(spark), str(table.path), on=["a", "b"], columns=["first"])
    assert by_path.columns[-1] == "first"
    assert spark_bag(by_path.select("id", "first")) == spark_bag(
        ss.join(orders(spark), table, on=["b", "a"], columns=["first"]).select("id", "first")
    )


@pytest.fixture(scope="module")
def stores(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[int, ss.MasterTable]:
    master = spark.range(0, 300).selectExpr("id % 120 as k", "concat('v', id) as v", "id as other")
    path = tmp_path_factory.mktemp("shards")
    return {shards: ss.prepare(master, path / f"{shards}", key="k", shards=shards) for shards in (1, 2, 5)}


@pytest.mark.parametrize("tasks", [1, 2, 3, None])
@pytest.mark.parametrize("shards", [1, 2, 5])
def test_tasks_and_shards_are_independent(
    spark: SparkSession, stores: dict[int, ss.MasterTable], shards: int, tasks: int | None
) -> None:
    stream = spark.range(0, 400, 1, 4).selectExpr("id % 150 as k", "id")
    found = ss.join(stream, stores[shards], on="k", how="left", memory="16 MiB", tasks=tasks, columns=["v"])
    expected = spark.range(0, 300).selectExpr("id % 120 as k", "concat('v', id) as v")
    assert spark_bag(found) == spark_bag(stream.join(expected, "k", "left").select("k", "id", "v"))
    assert found.rdd.getNumPartitions() == min(tasks or 2, shards)


def test_forms_of_on_suffix_and_columns(spark: SparkSession, stores: dict[int, ss.MasterTable]) -> None:
    stream = spark.range(5).selectExpr(
        "cast(id as int) as customer", "'mine' as v", "id as `odd name, 'it is'`"
    )
    table = stores[2]
    joined = ss.join(stream, table, on={"customer": "k"}, suffix="_m", memory="4 MiB")
    assert joined.columns == ["customer", "v", "odd name, 'it is'", "v_m", "other"]
    assert {row[1] for row in spark_bag(joined)} == {"mine"}
    only = ss.join(stream, table, on={"odd name, 'it is'": "k"}, columns=["other"], memory="4 MiB")
    assert only.columns == ["customer", "v", "odd name, 'it is'", "other"]
    assert sum(spark_bag(only).values()) == 15
    none = ss.join(stream, table, on={"customer": "k"}, columns=[], memory="4 MiB")
    assert none.columns == stream.columns
    assert none.count() == 15  # without columns an inner join still tells how many rows match


def test_names_that_differ_in_case_only_and_names_that_come_twice(
    spark: SparkSession, stores: dict[int, ss.MasterTable]
) -> None:
    """To Spark such names are ambiguous; the join goes by position."""
    stream = spark.range(3).selectExpr("id + 10 as K", "id as k", "'x' as twice", "'y' as twice")
    joined = ss.join(stream, stores[2], on="k", columns=["other"], memory="4 MiB")
    assert joined.columns == ["K", "k", "twice", "twice", "other"]
    rows = [tuple(row) for row in joined.collect()]
    assert len(rows) == 9
    assert {row[:4] for row in rows} == {(10 + n, n, "x", "y") for n in range(3)}


@pytest.mark.parametrize("name", ["with.dot", "with`tick"])
def test_column_names_that_need_quoting(spark: SparkSession, tmp_path: Path, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    master = spark.range(5).selectExpr(f"id as {quoted}", "id as `a.b`")
    table = ss.prepare(master, tmp_path / "s", key=name, shards=1)
    stream = spark.range(5).selectExpr(f"id as {quoted}", "id as `c.d`")
    joined = ss.join(stream, table, on=name, memory="4 MiB")
    assert joined.columns == [name, "c.d", "a.b"]
    assert spark_bag(joined) == {(n, n, n): 1 for n in range(5)}


@pytest.mark.parametrize(
    ("left", "right"), [("tinyint", "bigint"), ("bigint", "smallint"), ("int", "tinyint")]
)
def test_integers_of_any_width_meet(spark: SparkSession, tmp_path: Path, left: str, right: str) -> None:
    master = spark.range(-60, 60).selectExpr(f"cast(id as {right}) as k", "id as v")
    stream = spark.range(-100, 100).selectExpr(f"cast(id as {left}) as k")
    table = ss.prepare(master, tmp_path / "s", key="k", shards=2)
    joined = ss.join(stream, table, on="k", memory="4 MiB")
    assert dict(joined.dtypes)["k"] == left
    assert spark_bag(joined.select("v")) == {(n,): 1 for n in range(-60, 60)}


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_moments_do_not_depend_on_the_sessions_zone(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    utc = datetime.UTC
    rows = [(datetime.datetime(2024, 3, 10, hour, 30, tzinfo=utc), hour) for hour in range(24)]
    with Settings(spark, spark__sql__session__timeZone=zone):
        master = spark.createDataFrame(rows, "k timestamp, v int").selectExpr("k", "k as at", "v")
        table = ss.prepare(master, tmp_path / "s", key="k", shards=2)
        stream = master.selectExpr("k", "cast(k as string) as text")
        here = spark_bag(ss.join(stream, table, on="k", memory="4 MiB"))
        assert here == spark_bag(stream.join(master, "k").select("k", "text", "at", "v"))
    with Settings(spark, spark__sql__session__timeZone="UTC"):
        elsewhere = ss.join(master.select("k"), ss.open(tmp_path / "s"), on="k", memory="4 MiB")
        assert sum(spark_bag(elsewhere).values()) == 24


def test_adaptive_execution_with_many_partitions(spark: SparkSession, tmp_path: Path) -> None:
    with Settings(spark, spark__sql__adaptive__enabled=True, spark__sql__shuffle__partitions=50):
        master = spark.range(0, 1000, 1, 20).selectExpr("id as k", "id * 2 as v")
        table = ss.prepare(master, tmp_path / "s", key="k", shards=3)
        stream = spark.range(0, 2000, 1, 20).selectExpr("id as k").distinct()
        joined = ss.join(stream, table, on="k", how="left", memory="8 MiB", tasks=3)
        assert spark_bag(joined) == spark_bag(stream.join(master, "k", "left"))
        totals = joined.groupBy().sum("v").collect()
        assert totals[0][0] == sum(2 * n for n in range(1000))


def test_the_output_is_a_frame_like_any_other(spark: SparkSession, stores: dict[int, ss.MasterTable]) -> None:
    stream = spark.range(0, 100).selectExpr("id as k", "id % 3 as g")
    joined = ss.join(stream, stores[2], on="k", memory="4 MiB")
    twice = ss.join(joined.selectExpr("k", "v"), stores[5], on="k", how="semi", memory="4 MiB")
    assert twice.where("v like 'v1%'").count() == joined.where("v like 'v1%'").count() > 0
    assert spark_bag(joined.select("g").distinct()) == {(0,): 1, (1,): 1, (2,): 1}


def test_empty_sides(spark: SparkSession, tmp_path: Path) -> None:
    nothing = spark.range(0).selectExpr("id as k", "id as v")
    table = ss.prepare(nothing, tmp_path / "s", key="k", shards=2)
    assert table.rows == 0
    stream = spark.range(3).selectExpr("id as k")
    assert spark_bag(ss.join(stream, table, on="k", how="left", memory="4 MiB")) == {
        (n, None): 1 for n in range(3)
    }
    assert ss.join(stream, table, on="k", memory="4 MiB").count() == 0
    assert ss.join(stream.limit(0), table, on="k", how="anti", memory="4 MiB").count() == 0


def test_a_table_of_keys_only(spark: SparkSession, tmp_path: Path) -> None:
    table = ss.prepare(spark.range(10).selectExpr("id as k"), tmp_path / "s", key="k", shards=2)
    stream = spark.range(5, 15).selectExpr("id as k")
    assert ss.join(stream, table, on="k", memory="4 MiB").count() == 5
    assert ss.join(stream, table, on="k", how="left", memory="4 MiB").count() == 10


def test_a_new_version_leaves_the_open_one_alone(spark: SparkSession, tmp_path: Path) -> None:
    first = ss.prepare(spark.range(10).selectExpr("id as k", "1 as v"), tmp_path / "s", key="k", shards=2)
    frame = ss.join(spark.range(10).selectExpr("id as k"), first, on="k", memory="4 MiB")
    changed = spark.range(5).selectExpr("id as k", "decimal(2) as w", "'x' as v")
    second = ss.prepare(changed, tmp_path / "s", key="k", shards=1, overwrite=True)
    assert (first.version, second.version, ss.open(tmp_path / "s").version) == (1, 2, 2)
    assert spark_bag(frame) == {(n, 1): 1 for n in range(10)}
    newest = ss.join(spark.range(10).selectExpr("id as k"), tmp_path / "s", on="k", memory="4 MiB")
    assert spark_bag(newest) == {(n, decimal.Decimal(2), "x"): 1 for n in range(5)}
