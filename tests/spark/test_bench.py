"""The parts of the benchmark that need no session."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from semistream.spark.bench import PLAN, PLAN_LARGE, _pad, optimal_hit_ratio
from semistream.workloads.tables import STREAM_SCHEMA, TABLE_SCHEMA, StreamConfig, stream_batch, write_stream
from semistream.workloads.zipf import ZipfConfig, ZipfKeys


def test_the_optimal_hit_ratio_is_the_share_of_the_most_probable_keys(tmp_path: Path) -> None:
    zipf = ZipfConfig(keys=10_000, seed=4)
    sets = write_stream(StreamConfig(keys=zipf, batch_rows=50_000, batches=2), tmp_path / "s")
    assert optimal_hit_ratio(zipf, sets, 500) == pytest.approx(ZipfKeys(zipf).top_probability(500), abs=0.005)
    assert optimal_hit_ratio(zipf, sets, 10_000) == 1.0


@pytest.mark.parametrize("rows", [1, 10_000, 70_000])
def test_the_pipe_emits_every_row_with_the_columns_of_a_master_row(rows: int) -> None:
    config = StreamConfig(keys=ZipfConfig(keys=10), batch_rows=rows, batches=1, files_per_batch=1)
    batch = stream_batch(config, ZipfKeys(config.keys), 0)
    (padded,) = _pad(iter([batch]))
    assert padded.num_rows == rows
    assert padded.schema.names == STREAM_SCHEMA.names + [n for n in TABLE_SCHEMA.names if n != "custkey"]
    assert padded.select(STREAM_SCHEMA.names).to_pydict() == batch.to_pydict()
    assert isinstance(padded, pa.RecordBatch)


def test_even_an_exact_count_of_what_the_warm_up_shows_comes_near_the_optimum() -> None:
    # See Plan: fewer than 40 rows per cached row would blame the algorithm for the stream's brevity.
    assert min(PLAN.warm_up_per_cached_row, PLAN_LARGE.warm_up_per_cached_row) >= 40
