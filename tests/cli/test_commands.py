"""prepare -> info -> verify -> join, through the installed command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.command_line import CUSTOMERS, ORDERS_PER_FILE, World, semistream, write_orders

from semistream.cli.main import main
from semistream.front_stage.region import DIRECTORY_VARIABLE, Owner, Region


def test_prepare_says_what_it_wrote(world: World) -> None:
    assert world.prepared.returncode == 0, world.prepared.stderr
    assert "5,000 rows" in world.prepared.stdout
    assert "key custkey, version 1" in world.prepared.stdout
    assert world.prepared.stderr == ""


def test_info_shows_schema_sizes_and_versions(world: World) -> None:
    ran = semistream("info", world.store)
    assert ran.returncode == 0, ran.stderr
    for part in ("5,000 rows", "2 shards", "custkey", "int64", "segment", "string", "committed"):
        assert part in ran.stdout


def test_info_for_programs(world: World) -> None:
    found = json.loads(semistream("info", world.store, "--json").stdout)
    assert (found["rows"], found["shards"], found["key"], found["version"]) == (CUSTOMERS, 2, ["custkey"], 1)
    assert [column["name"] for column in found["columns"]] == world.customers.column_names
    assert found["bytes"] >= found["pages"] * found["page_bytes"]
    assert [version["version"] for version in found["versions"]] == [1]


def test_verify_finds_a_sound_store_sound(world: World) -> None:
    ran = semistream("verify", world.store)
    assert ran.returncode == 0, ran.stderr
    assert "is sound" in ran.stdout


def test_join_equals_the_batch_join_also_when_files_come_later(world: World, tmp_path: Path) -> None:
    orders, output = tmp_path / "orders", tmp_path / "enriched"
    shutil.copytree(world.orders, orders)
    command = ("join", orders, world.store, output, "--on", "custkey", "--how", "left", "--batch-files", "2")
    for files, rows in ((range(4), 4 * ORDERS_PER_FILE), (range(4, 6), 2 * ORDERS_PER_FILE)):
        write_orders(orders, files=files)
        ran = semistream(*command, "--memory", "4 MiB")
        assert ran.returncode == 0, ran.stderr
        assert f"joined {rows:,} rows into {rows:,}" in ran.stdout
        assert ran.stderr == ""

    stream = pq.read_table(orders)
    expected = stream.join(world.customers, "custkey", join_type="left outer")
    assert _sorted(_read(output)).equals(_sorted(expected))


def test_clean_removes_what_ended_queries_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    held, left = (
        Region.of_query(Owner(query_id=query, run_id="", join="", setup="", task=0), 1 << 20)
        for query in ("runs", "ended")
    )
    assert held is not None
    assert left is not None
    left.close()
    assert main(["clean"]) == 0
    assert "removed 1 front stage(s), 1.0 MiB" in capsys.readouterr().out
    assert [file.parent.name for file in tmp_path.rglob("*.front")] == ["runs"]
    held.close()


def _read(output: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in output.glob("*.parquet"))


def _sorted(table: pa.Table) -> pa.Table:
    columns = ["orderkey", "custkey", "name", "segment"]
    return table.select(columns).sort_by("orderkey").combine_chunks()
