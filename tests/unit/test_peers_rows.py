"""Every contestant of the benchmark, on a tiny table, against the oracle; and what the page cache holds of its files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.oracle import bag, joined

from semistream.peers import page_cache
from semistream.peers.contract import OUTPUT_SCHEMA, CannotRunError, Peer, Setting, build_if_missing
from semistream.peers.oracle import expected_rows
from semistream.peers.registry import PEERS, make_peer
from semistream.workloads.tables import KEY, STREAM_SCHEMA, TableConfig, write_table

ROWS, BATCH = 40_000, 3_000
LIBRARIES = [name for name, entry in PEERS.items() if entry.family == "library"]
SPARKS = [name for name, entry in PEERS.items() if entry.family == "spark"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files, so that a contestant that reads only the first is found out."""
    return write_table(
        TableConfig(rows=ROWS, rows_per_file=ROWS // 2), tmp_path_factory.mktemp("peers") / "table"
    )


def stream(keys: np.ndarray[Any, Any], seed: int = 0) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    columns = [
        pa.array(keys.astype(np.int64)),
        pa.array(random.random(keys.size)),
        pa.array(random.integers(1, 50, keys.size, dtype=np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=STREAM_SCHEMA)


def setting(files: list[Path], home: Path) -> Setting:
    return Setting(
        table_files=tuple(files), table_id="tiny", rows=ROWS, home=home, memory_bytes=2 << 20, threads=2
    )


@pytest.fixture
def peer(request: pytest.FixtureRequest, files: list[Path], tmp_path: Path) -> Iterator[Peer]:
    if request.param == "postgresql" and os.geteuid() == 0:
        # Another user's server has to get at it.
        for directory in (tmp_path, *tmp_path.parents[:3]):
            if directory != Path("/tmp"):
                directory.chmod(0o755)
    if request.param == "polars":
        pytest.importorskip("polars")
        import polars

        threads = polars.thread_pool_size()
    try:
        made = make_peer(request.param, setting(files, tmp_path / request.param))
        if request.param == "polars":
            made = make_peer(request.param, Setting(**(made.setting.__dict__ | {"threads": threads})))
        assert build_if_missing(made)
        made.open()
    except CannotRunError as error:
        pytest.skip(error.message)
    yield made
    made.close()


@pytest.mark.parametrize("peer", LIBRARIES, indirect=True)
def test_a_contestant_gives_the_rows_of_the_plain_join(peer: Peer, files: list[Path]) -> None:
    master = pq.read_table(files)
    random = np.random.default_rng(1)
    batches = [
        random.integers(0, ROWS, BATCH),
        random.integers(0, 40, BATCH),  # every key often
        random.integers(0, 2 * ROWS, BATCH),
        np.array([ROWS - 1]),
        np.array([ROWS + 5]),  # none is there
    ]
    for number, keys in enumerate(batches):
        batch = stream(keys, number)
        found = peer.join(batch)
        assert found.schema.equals(OUTPUT_SCHEMA)
        expected = joined(
            pa.Table.from_batches([batch]), master, stream_key=[KEY], master_key=[KEY], how="inner"
        )
        assert bag(found) == expected, number


@pytest.mark.parametrize("peer", LIBRARIES, indirect=True)
def test_its_files_can_be_dropped_from_the_page_cache_and_read_back(peer: Peer) -> None:
    batch = stream(np.random.default_rng(2).integers(0, ROWS, BATCH))
    assert peer.seconds(batch) > 0
    files = peer.files()
    assert files
    page_cache.sync(files)
    page_cache.fill(files)
    assert page_cache.resident_share(files) > 0.99
    peer.let_go()
    page_cache.drop(files)
    share = page_cache.resident_share(files)
    if share > 0.99:
        pytest.skip("this file system keeps its files in memory")
    assert share < 0.05
    assert peer.seconds(batch) > 0


def test_what_was_built_is_used_again_until_the_table_is_another(files: list[Path], tmp_path: Path) -> None:
    first = setting(files, tmp_path / "ours")
    assert build_if_missing(make_peer("ours", first))
    assert not build_if_missing(make_peer("ours", first))
    assert build_if_missing(make_peer("ours", Setting(**(first.__dict__ | {"table_id": "other"}))))


def test_a_missing_package_is_explained(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "rocksdict", None)
    monkeypatch.delitem(sys.modules, "semistream.peers.rocksdb_peer", raising=False)
    with pytest.raises(CannotRunError, match="needs the package rocksdict"):
        make_peer("rocksdb", setting(files, tmp_path / "rocksdb"))


def test_the_expected_rows_are_the_plain_joins(files: list[Path]) -> None:
    batch = stream(np.random.default_rng(3).integers(0, ROWS + 1000, BATCH))
    expected = expected_rows(batch, files)
    plain = joined(
        pa.Table.from_batches([batch]), pq.read_table(files), stream_key=[KEY], master_key=[KEY], how="inner"
    )
    assert bag(expected) == plain
    assert expected[KEY].to_pylist() == sorted(expected[KEY].to_pylist())
