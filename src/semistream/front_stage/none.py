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
)
from semistream.core.keys import KeyBatch
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout


class NoFrontStage:
    """Answers null keys, and nothing else. Memory: none."""

    def __init__(self, layout: RowLayout) -> None:
        self.layout = layout

    def probe(self, keys: KeyBatch, start: int, misses_max: int) -> Answers:
        valid = keys.valid[start:]
        if misses_max < valid.size:
            missed = np.flatnonzero(valid[: 2 * misses_max])
            if missed.size < misses_max:
                missed = np.flatnonzero(valid)
            if missed.size >= misses_max:
                valid = valid[: missed[misses_max - 1] + 1]
        entries = np.where(valid, MISS, NULL_KEY).astype(np.int64)
        return Answers(entries=entries, present=0, absent=0, nulls=int(entries.size - valid.sum()))

    def pairs(self, answers: Answers, kind: JoinKind, limit: ChunkLimit) -> Iterator[Pairs]:
        if kind.absent:
            index = np.flatnonzero(answers.entries == NULL_KEY).astype(np.int64)
            for start in range(0, index.size, limit.pairs):
                part = index[start : start + limit.pairs]
                yield Pairs(stream_index=part, row_at=np.zeros(part.size, np.int64))

    def admit(self, matches: Matches, rows: MasterRows) -> None:
        pass

    def adapt(self, cycles: int) -> None:
        pass

    def report(self, metrics: JoinMetrics) -> None:
        pass

    def check_invariants(self) -> None:
        pass

    def close(self) -> None:
        pass
