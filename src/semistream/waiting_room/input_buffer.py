"""Stream rows before anybody looks at them: the pending phase of SSIJ."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from semistream.core.budget import MemoryBudget

COPIES = 2  # the pieces are put together once


class InputBuffer:
    """Keeps batches back until they are larger than a threshold, or the stream ends.

    SSIJ's input buffer, Bornea et al. 2011, as described in 003 section 2.3 and 000 section 2: rows that come in small
    batches are looked up together. Guarantee: rows come out in the order they came in, each once. Memory: `size_bytes`,
    of which half is the threshold; a batch that crosses it passes through and is not kept.

    >>> pending = InputBuffer(MemoryBudget(64), 64)
    >>> one = pa.record_batch({"k": [1, 2]})
    >>> [[batch.num_rows for batch in pending.add(one)] for _ in range(4)]
    [[], [2, 2], [], [2, 2]]
    """

    def __init__(self, budget: MemoryBudget, size_bytes: int) -> None:
        self._reservation = budget.reserve("input buffer", size_bytes)
        self.threshold_bytes = size_bytes // COPIES
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0

    @property
    def count(self) -> int:
        """Rows that nobody has looked at yet."""
        return sum(batch.num_rows for batch in self._pending)

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batches whose turn has come; none while the phase lasts."""
        if self._pending_bytes + batch.nbytes < self.threshold_bytes:
            self._pending.append(batch)
            self._pending_bytes += batch.nbytes
            return
        yield from self.rest()
        yield batch

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Whoever is left, at the end of the stream."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending:
            yield pa.concat_batches(pending)
