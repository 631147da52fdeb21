"""No front stage: every key is a miss. The loop of MESHJOIN, HYBRIDJOIN and INLJ, and of a task whose
cache is in use by another attempt."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semistream.core.contracts import (
    MISS,
    NULL_KEY,
    Answers,
    ChunkLimit,
    JoinKind,
    MasterRows,
    Matches,
    Pairs,
    Waiting,
)
from semistream.core.keys import KeyBatch
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout


class NoFrontStage:
    """Answers null keys, and nothing else. Memory: none."""

    def __init__(self, layout: RowLayout) -> None:
        self.layout = layout

    def probe(self, keys: KeyBatch) -> Answers:
        entries = np.where(keys.valid, MISS, NULL_KEY).astype(np.int64)
        return Answers(entries=entries, present=0, absent=0, nulls=int(entries.size - keys.valid.sum()))

    def pairs(self, answers: Answers, kind: JoinKind, limit: ChunkLimit) -> Iterator[Pairs]:
        if kind.absent:
            index = np.flatnonzero(answers.entries == NULL_KEY).astype(np.int64)
            for start in range(0, index.size, limit.pairs):
                part = index[start : start + limit.pairs]
                yield Pairs(stream_index=part, row_at=np.zeros(part.size, np.int64))

    def admit(self, waiting: Waiting, matches: Matches, rows: MasterRows) -> None:
        pass

    def adapt(self) -> None:
        pass

    def report(self, metrics: JoinMetrics) -> None:
        pass

    def check_invariants(self) -> None:
        pass

    def close(self) -> None:
        pass
