"""The contestants by name. A package that only one of them needs is loaded with that one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from semistream.peers.contract import CannotRunError, Peer, Setting

Family = Literal["library", "spark"]
Load = Callable[[], type[Peer]]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`family`: a streaming query on Spark, or a library that is called with a batch and returns its rows."""

    family: Family
    title: str
    load: Load


def _core() -> type[Peer]:
    from semistream.peers.ours import Core

    return Core


def _duckdb() -> type[Peer]:
    from semistream.peers.duckdb_peers import ParquetJoin

    return ParquetJoin


def _duckdb_index() -> type[Peer]:
    from semistream.peers.duckdb_peers import IndexJoin

    return IndexJoin


def _polars() -> type[Peer]:
    from semistream.peers.polars_peer import ParquetJoin

    return ParquetJoin


def _sqlite() -> type[Peer]:
    from semistream.peers.sqlite_peer import PointLookups

    return PointLookups


def _postgresql() -> type[Peer]:
    from semistream.peers.postgresql_peer import PointLookups

    return PointLookups


def _rocksdb() -> type[Peer]:
    from semistream.peers.rocksdb_peer import MultiGet

    return MultiGet


def _lance() -> type[Peer]:
    from semistream.peers.lance_peer import Take

    return Take


def _spark() -> type[Peer]:
    from semistream.peers.spark_peers import Plain

    return Plain


def _spark_cached() -> type[Peer]:
    from semistream.peers.spark_peers import Cached

    return Cached


def _spark_broadcast() -> type[Peer]:
    from semistream.peers.spark_peers import Broadcast

    return Broadcast


def _ours_spark() -> type[Peer]:
    from semistream.peers.spark_peers import Ours

    return Ours


OURS: dict[Family, str] = {"library": "ours", "spark": "ours_spark"}
PEERS: dict[str, Entry] = {
    "ours": Entry(family="library", title="semistream, core", load=_core),
    "duckdb": Entry(family="library", title="DuckDB, Parquet", load=_duckdb),
    "duckdb_index": Entry(family="library", title="DuckDB, index", load=_duckdb_index),
    "polars": Entry(family="library", title="Polars, Parquet", load=_polars),
    "sqlite": Entry(family="library", title="SQLite", load=_sqlite),
    "postgresql": Entry(family="library", title="PostgreSQL", load=_postgresql),
    "rocksdb": Entry(family="library", title="RocksDB", load=_rocksdb),
    "lance": Entry(family="library", title="Lance", load=_lance),
    "ours_spark": Entry(family="spark", title="semistream on Spark", load=_ours_spark),
    "spark": Entry(family="spark", title="Spark, plain", load=_spark),
    "spark_cached": Entry(family="spark", title="Spark, cache()", load=_spark_cached),
    "spark_broadcast": Entry(family="spark", title="Spark, broadcast()", load=_spark_broadcast),
}


def make_peer(name: str, setting: Setting) -> Peer:
    """CannotRunError if a package of it is missing."""
    try:
        return PEERS[name].load()(setting)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("semistream"):
            raise
        raise CannotRunError(
            f"{PEERS[name].title} needs the package {error.name}, which is not installed.",
            hint='pip install "semistream[peers,spark]"',
        ) from error
