"""Joins that keep the stream's order: the same bag of rows as the oracle's, and never a row before its turn."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracle import joined
from tests.ordered import ordered_lookup
from tests.strategies import JoinCase, join_cases

from semistream.core.contracts import JOIN_KINDS
from semistream.front_stage.registry import FRONT_STAGES
from semistream.joins import ALGORITHMS, minimum_task_bytes
from semistream.master_table.builder import build_store


def check(
    case: JoinCase, how: str, batch_rows: int, more_memory: int, algorithm: str, front_stage: str | None
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = build_store(
            case.master, Path(directory) / "s", key=case.key, shards=case.shards, page_size=case.page_bytes
        )
        stream = case.stream.append_column("arrived", pa.array(range(case.stream.num_rows), pa.int64()))
        shards = list(range(table.shards))
        found, metrics = ordered_lookup(
            table,
            stream,
            how=how,
            memory_bytes=minimum_task_bytes(table, shards, algorithm, front_stage, ordered=True)
            + more_memory,
            batch_rows=batch_rows,
            algorithm=algorithm,
            front_stage=front_stage,
        )
        assert found == joined(stream, case.master, stream_key=case.key, master_key=case.key, how=how)
        assert metrics.rows_in - metrics.rows_rejoined == stream.num_rows
        assert metrics.rows_out - metrics.rows_dropped == sum(found.values())
        assert (metrics.rows_waiting, metrics.rows_held) == (0, 0)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    case=join_cases(),
    how=st.sampled_from(sorted(JOIN_KINDS)),
    batch_rows=st.sampled_from([1, 3, 64, 1 << 20]),
    more_memory=st.sampled_from([0, 1, 100_000, 10 << 20]),
)
def test_every_algorithm_keeps_the_order(
    algorithm: str, case: JoinCase, how: str, batch_rows: int, more_memory: int
) -> None:
    check(case, how, batch_rows, more_memory, algorithm, None)


@pytest.mark.parametrize("algorithm", ["adaptive", "meshjoin", "hybridjoin"])
@pytest.mark.parametrize("front_stage", sorted(set(FRONT_STAGES) - {"clairvoyant"}))
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    case=join_cases(),
    how=st.sampled_from(sorted(JOIN_KINDS)),
    batch_rows=st.sampled_from([3, 64, 1 << 20]),
    more_memory=st.sampled_from([1, 100_000, 10 << 20]),
)
def test_so_does_every_front_stage(
    algorithm: str, front_stage: str, case: JoinCase, how: str, batch_rows: int, more_memory: int
) -> None:
    check(case, how, batch_rows, more_memory, algorithm, front_stage)
