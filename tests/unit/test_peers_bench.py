"""The benchmark of the peers run at a tiny size: cells, their order of work, going on after an interruption, failures."""

from __future__ import annotations

import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from semistream.peers import page_cache
from semistream.peers.bench import PeersConfig, run
from semistream.peers.contract import Setting
from semistream.peers.memory import MemoryWatch, tree
from semistream.peers.process import FailedError, PeerProcess
from semistream.peers.results import Cell, read
from semistream.workloads.tables import TABLE_ROW_BYTES, TableConfig, write_table
from semistream.workloads.zipf import ZipfConfig

ROWS = 20_000
CONFIG = PeersConfig(
    peers=("ours", "duckdb"),
    table_rows=(ROWS,),
    batch_rows=(1_000, 3_000),
    memory_shares=(1.5,),
    warm_up_rows_min=4_000,
    warm_up_per_cached_row=0,
    warm_up_batch_rows=2_000,
    verified_rows=500,
    cell_s=0.01,
    rounds=2,
    batches_min=2,
    batches_max=5,
)


def quiet(_: str, done: int, total: int, left_s: float | None) -> None:
    assert 0 <= done <= total
    assert left_s is None or left_s >= 0


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Cell]]:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    out = tmp_path_factory.mktemp("peers-bench") / "peers.json"
    return out, run(out, CONFIG, say=quiet)


def test_every_cell_is_measured_and_written(measured: tuple[Path, list[Cell]]) -> None:
    out, cells = measured
    places = {(cell.peer, cell.batch_rows, cell.cache) for cell in cells}
    assert places == {
        (peer, rows, cache)
        for peer in CONFIG.peers
        for rows in CONFIG.batch_rows
        for cache in ("warm", "cold")
    }
    assert sorted(read(out), key=str) == sorted(cells, key=str)
    for cell in cells:
        assert cell.failed is None, cell.failed
        assert cell.rows_s is not None
        assert cell.rows_s > 0
        assert cell.p50_s is not None
        assert cell.p99_s is not None
        assert cell.p50_s <= cell.p99_s
        assert 2 <= cell.batches <= 5
        assert cell.table_bytes == ROWS * TABLE_ROW_BYTES
        assert cell.fits_in_memory
        # A Python process with its libraries, and far from the memory of the machine.
        assert cell.peak_rss_bytes is not None
        assert 20 << 20 < cell.peak_rss_bytes < 4 << 30
        assert cell.warm_up_rows == (4_000 if cell.peer == "ours" else 2_000)


def test_what_is_there_is_not_measured_again_but_what_failed_is(
    measured: tuple[Path, list[Cell]], tmp_path: Path
) -> None:
    out, cells = measured
    said: list[tuple[int, int]] = []
    assert sorted(
        run(out, CONFIG, say=lambda _, done, total, __: said.append((done, total))), key=str
    ) == sorted(cells, key=str)
    assert said == []
    more = replace(CONFIG, peers=("ours",), batch_rows=(1_000, 2_000), caches=("warm",))
    added = run(out, more, say=lambda _, done, total, __: said.append((done, total)))
    assert len(added) == len(cells) + 1
    assert said[0] == (1, 2)
    assert said[-1] == (2, 2)


def test_a_contestant_that_cannot_run_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    config = replace(CONFIG, memory_shares=(0.001,), batch_rows=(1_000,), caches=("warm",))
    by_peer = {cell.peer: cell for cell in run(tmp_path / "peers.json", config, say=quiet)}
    assert by_peer["ours"].rows_s is None
    assert by_peer["ours"].failed is not None
    assert "too little" in by_peer["ours"].failed
    duckdb = by_peer["duckdb"]
    assert duckdb.rows_s is not None
    # It was given more than what is allowed, until it ran, and that is in the result.
    assert duckdb.memory_bytes_given is not None
    assert (duckdb.memory_bytes_given > duckdb.memory_bytes_allowed) == bool(duckdb.notes)


def _hold(megabytes: int) -> None:
    held = np.ones(megabytes << 20, np.uint8)
    time.sleep(30)
    assert held.size


def test_memory_of_children_is_seen_and_mapped_files_are_not() -> None:
    child = get_context("spawn").Process(target=_hold, args=(150,))
    child.start()
    assert child.pid is not None
    try:
        give_up = time.monotonic() + 30
        seen = 0
        while seen < 150 << 20 and time.monotonic() < give_up:
            with MemoryWatch(child.pid) as watch:
                time.sleep(0.1)
            seen = watch.peak_bytes
        assert 150 << 20 <= seen < 600 << 20
        import os

        assert child.pid in tree(os.getpid())
    finally:
        child.kill()
        child.join()


def test_the_page_cache_is_asked_file_by_file(tmp_path: Path) -> None:
    kept, dropped = tmp_path / "kept", tmp_path / "dropped"
    for path in (kept, dropped):
        path.write_bytes(b"x" * (1 << 20))
    assert page_cache.resident_share([kept, dropped]) == 1.0
    page_cache.drop([dropped, tmp_path / "missing"])
    if page_cache.resident_share([dropped]) == 1.0:
        pytest.skip("this file system keeps its files in memory")
    assert page_cache.resident_share([dropped]) == 0.0
    assert page_cache.resident_share([kept]) == 1.0
    assert page_cache.resident_share([kept, dropped]) == 0.5
    page_cache.fill([dropped])
    assert page_cache.resident_share([dropped]) == 1.0
    assert page_cache.resident_share([]) == 0.0


def test_pages_that_are_mapped_are_dropped_once_they_are_let_go(tmp_path: Path) -> None:
    path = tmp_path / "mapped"
    path.write_bytes(b"x" * (1 << 20))
    page_cache.sync([path])
    mapped = np.memmap(path, np.uint8, mode="r")
    assert int(mapped.sum()) == ord("x") << 20
    page_cache.release_mappings([path])
    page_cache.drop([path])
    if page_cache.resident_share([path]) == 1.0:
        pytest.skip("this file system keeps its files in memory")
    assert page_cache.resident_share([path]) == 0.0
    assert int(mapped.sum()) == ord("x") << 20


def test_a_contestant_ends_with_its_parent(tmp_path: Path) -> None:
    files = write_table(TableConfig(rows=ROWS), tmp_path / "table")
    setting = Setting(
        table_files=tuple(files),
        table_id="tiny",
        rows=ROWS,
        home=tmp_path / "peers" / "ours",
        memory_bytes=4 << 20,
    )
    process = PeerProcess("ours", setting, ZipfConfig(keys=ROWS))
    assert process.ask("build", limit_s=100)
    process._connection.close()  # what the system does when the parent dies
    process._process.join(60)
    assert process._process.exitcode == 0


def test_a_contestant_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    files = write_table(TableConfig(rows=ROWS), tmp_path / "table")
    setting = Setting(
        table_files=tuple(files),
        table_id="tiny",
        rows=ROWS,
        home=tmp_path / "peers" / "ours",
        memory_bytes=4 << 20,
    )
    process = PeerProcess("ours", setting, ZipfConfig(keys=ROWS))
    with pytest.raises(FailedError, match="build: stopped after"):
        process.ask("build", limit_s=0)
    process.close()
    assert not Path(f"/proc/{process.pid}").exists()
