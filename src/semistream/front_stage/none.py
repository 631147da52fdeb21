"""No front stage: every key is a miss. The loop of MESHJOIN, HYBRIDJOIN and INLJ, and of a task whose
cache is in use by another attempt."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semistream.core.contracts import (
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
from semistream.front_stage import _none_kernels as kernels


class NoFrontStage:
    """Answers null keys, and nothing else. Memory: none."""

    def __init__(self, layout: RowLayout) -> None:
        self.layout = layout

    def probe(self, keys: KeyBatch, start: int, misses_max: int) -> Answers:
        entries = np.empty(keys.prefix.size - start, np.int64)
        answered, nulls = kernels.miss_all(keys.valid, start, misses_max, entries)
        return Answers(entries=entries[:answered], present=0, absent=0, nulls=nulls, probes=0)

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
