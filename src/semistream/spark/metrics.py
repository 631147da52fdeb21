"""Reading the joins' metrics out of a query's progress."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from semistream.core.metrics import JoinMetrics

OBSERVATION_PREFIX = "semistream-"


@dataclass(kw_only=True)
class BatchMetrics(JoinMetrics):
    """The counters of one join in one micro-batch, added up over its tasks; see `JoinMetrics`.

    `batch_ms` is the whole micro-batch as Spark reports it, `join` names the join within the query.
    """

    batch_id: int
    join: str
    tasks: int
    batch_ms: int


def recent_metrics(query: StreamingQuery) -> list[BatchMetrics]:
    """See `semistream.metrics`."""
    found = []
    for progress in query.recentProgress:
        for name, row in (progress["observedMetrics"] or {}).items():
            if name.startswith(OBSERVATION_PREFIX):
                found.append(_batch(progress, name, row))
    return found


def _batch(progress: Any, name: str, row: Any) -> BatchMetrics:
    tasks = [JoinMetrics.from_bytes(_unpacked(counters)) for counters in row["tasks"]]
    batch = BatchMetrics(
        batch_id=int(progress["batchId"]),
        join=name,
        tasks=len(tasks),
        batch_ms=int(progress["durationMs"].get("triggerExecution", 0)),
    )
    for task in tasks:
        batch.add(task)
    return batch


def _unpacked(counters: Any) -> bytes:
    """Progress reports travel as JSON, where binary values are base64 text; a listener gets them as bytes."""
    return base64.b64decode(counters) if isinstance(counters, str) else bytes(counters)
