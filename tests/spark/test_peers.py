"""The contestants on Spark, each in a process of its own as in the benchmark, on a tiny table against the oracle."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from tests.oracle import bag, joined

from semistream.peers.contract import Setting
from semistream.peers.oracle import expected_rows
from semistream.peers.process import PeerProcess
from semistream.peers.worker import Turn
from semistream.workloads.tables import KEY, StreamConfig, TableConfig, stream_batch, write_table
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

ROWS = 40_000


@pytest.mark.parametrize(
    "name", ["ours_spark", "spark_cached"]
)  # the others differ from the second by a hint
def test_a_query_gives_the_rows_of_the_plain_join_and_times_its_batches(name: str, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = write_table(TableConfig(rows=ROWS, rows_per_file=ROWS // 2), tmp_path / "table")
    zipf = ZipfConfig(keys=ROWS)
    batch = stream_batch(StreamConfig(keys=zipf, batch_rows=2_000, batches=1), ZipfKeys(zipf), 7)
    expected = expected_rows(batch, files)
    assert bag(expected) == joined(
        pa.Table.from_batches([batch]), pq.read_table(files), stream_key=[KEY], master_key=[KEY], how="inner"
    )
    setting = Setting(
        table_files=tuple(files), table_id="tiny", rows=ROWS, home=tmp_path / "peers" / name,
        memory_bytes=4 << 20, threads=2,
    )  # fmt: skip
    with contextlib.closing(PeerProcess(name, setting, zipf)) as builder:
        assert builder.ask("build", limit_s=60)
    with contextlib.closing(PeerProcess(name, setting, zipf)) as process:
        process.ask("open", batch, expected, limit_s=120)  # compares the rows
        for is_cold in (False, True):
            timed = process.ask(
                "run", Turn(batch_rows=1_000, first=10, batches=2, is_cold=is_cold), limit_s=120
            )
            assert len(timed.seconds) == 2
            assert min(timed.seconds) > 0
            # A table that is cached has no files to drop, and some file systems keep theirs in memory.
            if is_cold and timed.resident_share is not None and timed.resident_share < 0.99:
                assert timed.resident_share < 0.05
