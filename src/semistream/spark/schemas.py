"""Spark's types and the core's."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

from semistream.errors import SchemaError

# PySpark 4.1 knows no other time zone here.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}


def master_schema(df: DataFrame) -> pa.Schema:
    """The Arrow schema of a table to prepare; SchemaError for a type it cannot hold."""
    return pa.schema([pa.field(field.name, _stored_type(field)) for field in df.schema.fields])


def stream_schema(df: DataFrame) -> pa.Schema:
    """The stream's Arrow schema. The join reads its key columns only: any other type that Arrow knows may pass."""
    fields = []
    for field in df.schema.fields:
        try:
            kind = to_arrow_type(field.dataType, **_IN_UTC)
        except PySparkException:
            raise SchemaError(
                f"the stream's column '{field.name}' has the type {field.dataType.simpleString()}, which Spark "
                "cannot send to Python.",
                hint=f"cast or drop '{field.name}' before the join.",
            ) from None
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def check_key_type(field: T.StructField) -> None:
    """SchemaError for a key that Spark compares in another way than by its bytes."""
    _stored_type(field)


def _stored_type(field: T.StructField) -> pa.DataType:
    kind = field.dataType
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
        raise SchemaError(
            f"column '{field.name}' has the nested type {kind.simpleString()}, which a master table cannot hold.",
            hint=f"store it as JSON text: df.withColumn('{field.name}', to_json('{field.name}')).",
        )
    if isinstance(kind, T.TimestampType):
        return pa.timestamp("us", "UTC")
    known = (
        T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType,
        T.DateType, T.TimestampNTZType, T.DecimalType, T.StringType, T.BinaryType,
    )  # fmt: skip
    if not isinstance(kind, known):
        raise SchemaError(
            f"column '{field.name}' has the type {kind.simpleString()}, which a master table cannot hold.",
            hint=f"cast it to a number, string, binary, date or timestamp, or drop '{field.name}'.",
        )
    if isinstance(kind, T.StringType) and not kind.isUTF8BinaryCollation():
        raise SchemaError(
            f"column '{field.name}' has the collation {kind.simpleString()}; only UTF8_BINARY is supported.",
            hint=f"cast it: df.withColumn('{field.name}', col('{field.name}').collate('UTF8_BINARY')).",
        )
    return to_arrow_type(kind)


def spark_fields(fields: list[pa.Field]) -> list[T.StructField]:
    return [
        T.StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True), True)
        for field in fields
    ]


def shard_column(df: DataFrame, key: list[str], shards: int, *, with_nulls: bool) -> Column:
    """The shard of each row as Spark computes it; `KeyEncoder.shards` computes the same in the core.

    With `with_nulls`, keys may be null. Such a row matches nothing, so it may go anywhere: by its other
    columns, lest all of them meet in one task.
    """
    columns = [canonical(df, name) for name in key]
    by_key = F.pmod(F.xxhash64(*columns), F.lit(shards))
    if not with_nulls:
        return by_key.cast("int")
    others = [
        F.col(quoted(f.name)) for f in df.schema.fields if f.name not in key and _is_hashable(f.dataType)
    ]
    any_null = F.lit(False)
    for column in columns:
        any_null = any_null | column.isNull()
    spread = F.pmod(F.xxhash64(*others), F.lit(shards)) if others else F.lit(0)
    return F.when(any_null, spread).otherwise(by_key).cast("int")


def canonical(df: DataFrame, name: str) -> Column:
    """A key column in the type it is hashed in: integers of any width are alike."""
    column = F.col(quoted(name))
    integers = (T.ByteType, T.ShortType, T.IntegerType)
    return column.cast("bigint") if isinstance(df.schema[name].dataType, integers) else column


def numbered(df: DataFrame) -> DataFrame:
    """The frame with its columns named by position: `mapInArrow` resolves names as if they were paths, and
    fails on those with dots or backticks in them."""
    return df.toDF(*(numbered_name(position) for position in range(len(df.columns))))


def numbered_name(position: int) -> str:
    return f"c{position}"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_hashable(kind: T.DataType) -> bool:
    return isinstance(kind, (T.NumericType, T.StringType, T.BinaryType, T.DateType, T.TimestampType))


def parallelism(df: DataFrame) -> int:
    """How many tasks Spark would like to run at once; never less than 1."""
    session = df.sparkSession
    try:
        return max(1, int(session.sparkContext.defaultParallelism))
    except PySparkException:  # Spark Connect has no context
        return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 1))
