"""Following a streaming query batch by batch, for progress bars and summaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from semistream.core.metrics import JoinMetrics
from semistream.spark.metrics import recent_metrics

POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One finished micro-batch. `join` adds up all our joins of the query; None if it has none."""

    batch_id: int
    rows: int
    seconds: float
    join: JoinMetrics | None
    observed: dict[str, Any]


def follow(query: StreamingQuery) -> Iterator[Batch]:
    """Yields every micro-batch that had rows, once, in order, soon after it ended; returns with the query.

    Spark's StreamingQueryException if the query fails. A batch is missed only if Spark forgets its report
    (spark.sql.streaming.numRecentProgressUpdates, 100) before the consumer asks for the next one.
    """
    newest, ended = -1, False
    while not ended:
        # First the state, then the reports: those of the last batches are there when the query has ended.
        ended = bool(query.awaitTermination(POLL_SECONDS))  # type: ignore[arg-type]  # fractions work
        last = query.lastProgress
        if last is None or last["batchId"] <= newest:
            continue
        joins: dict[int, JoinMetrics] = {}
        for metrics in recent_metrics(query):
            joins.setdefault(metrics.batch_id, JoinMetrics()).add(metrics)
        for progress in query.recentProgress:
            if progress["batchId"] > newest:
                newest = progress["batchId"]
                if progress["numInputRows"] > 0:
                    yield _batch(progress, joins.get(newest))


def _batch(progress: Any, join: JoinMetrics | None) -> Batch:
    return Batch(
        batch_id=progress["batchId"],
        rows=progress["numInputRows"],
        seconds=progress["durationMs"].get("triggerExecution", 0) / 1000,
        join=join,
        observed=dict(progress["observedMetrics"] or {}),
    )
