"""A store that was copied or restored: its version numbers repeat, its rows do not. Never a row of the other one."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.sparks import committed, file_stream, run_to_files, write_files

import semistream as ss
from semistream.master_table.builder import build_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 500


def prepare(store: Path, says: str) -> ss.MasterTable:
    table = pa.table({"k": pa.array(range(KEYS)), "v": pa.array([says] * KEYS)})
    return build_store(table, store, key="k", shards=2, overwrite=True)


def parts(count: int) -> list[pa.Table]:
    """Every micro-batch asks for the same keys, so from the second one on the front stage answers."""
    ids = [range(KEYS * number, KEYS * (number + 1)) for number in range(count)]
    return [pa.table({"k": pa.array(range(KEYS)), "id": pa.array(part)}) for part in ids]


def by_batch(found: Counter[tuple[object, ...]]) -> list[set[object]]:
    """What the rows of each micro-batch were joined with."""
    said: dict[int, set[object]] = {}
    for _, at, value in found:
        assert isinstance(at, int)
        said.setdefault(at // KEYS, set()).add(value)
    return [said[number] for number in sorted(said)]


@pytest.mark.parametrize("moved", [False, True], ids=["the copy", "the copy in the original's place"])
def test_a_query_restarted_on_a_copy_gives_the_copys_rows(
    spark: SparkSession, tmp_path: Path, moved: bool
) -> None:
    original, copy = tmp_path / "a", tmp_path / "b"
    prepare(original, "first")
    shutil.copytree(original, copy)
    versions = [prepare(original, "of the original"), prepare(copy, "of the copy")]
    assert [table.version for table in versions] == [2, 2]
    assert versions[0].store_id == versions[1].store_id

    def run(store: Path, batches: int) -> list[int]:
        stream = file_stream(spark, write_files(tmp_path / "in", parts(batches)))
        frame = ss.join(stream, store, on="k", memory="4 MiB")
        query = run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
        return [batch.front_stage_cold_starts for batch in ss.metrics(query)]

    assert run(original, 2) == [2, 0]
    if moved:
        shutil.rmtree(original)
        copy.rename(original)
    assert run(original if moved else copy, 4) == [2, 0]
    said = by_batch(committed(spark, tmp_path / "out"))
    assert said == [{"of the original"}] * 2 + [{"of the copy"}] * 2


def test_a_running_query_notices_that_its_versions_number_came_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    store, backup = tmp_path / "s", tmp_path / "backup"
    prepare(store, "first")
    shutil.copytree(store, backup)
    pinned = prepare(store, "second")
    write_files(tmp_path / "in", parts(1))
    frame = ss.join(file_stream(spark, tmp_path / "in"), pinned, on="k", memory="4 MiB")
    run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")

    shutil.rmtree(store)
    backup.rename(store)
    assert prepare(store, "another second").version == pinned.version
    write_files(tmp_path / "in", parts(2))
    with pytest.raises(Exception, match="was replaced by another one of the same number") as caught:
        run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
    assert "StoreError" in str(caught.value)
    assert "start the query again" in str(caught.value)
    assert by_batch(committed(spark, tmp_path / "out")) == [{"second"}]
    # Started anew it joins with what is there now.
    frame = ss.join(file_stream(spark, tmp_path / "in"), store, on="k", memory="4 MiB")
    run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
    assert by_batch(committed(spark, tmp_path / "out")) == [{"second"}, {"another second"}]
