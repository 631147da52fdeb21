"""Bounds: front stages that know what no other can.

`ClairvoyantFrontStage` knows the true probability of each key and keeps the densest that fit: no front stage that has
to learn has more hits on a stream of independent rows. `belady_hits` knows a recorded sequence to its end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from semistream.core.contracts import I64, MISS, MasterRows
from semistream.core.keys import KeyBatch
from semistream.core.rows import RowLayout
from semistream.front_stage import _clairvoyant_kernels as kernels
from semistream.front_stage.entry_table import SIZE_MAX_BYTES, EntryTable
from semistream.front_stage.table_stage import Offers, TableFrontStage

Probabilities = Callable[[KeyBatch], npt.NDArray[np.float64]]

CLASSES = 8 * kernels.OCTAVES  # of density, which are told apart to within an eighth
LISTS_BYTES = 24 * CLASSES
UNCOUNTED_BYTES_MAX = 56  # of a key without rows: record, header, padding, bucket, and slack


def only(keys: KeyBatch) -> Probabilities:
    """Probabilities that are 1 for these keys, and 0 for all others."""
    chosen = np.unique(keys.hashes)

    def probabilities(asked: KeyBatch) -> npt.NDArray[np.float64]:
        return np.isin(asked.hashes, chosen).astype(np.float64)

    return probabilities


class ClairvoyantFrontStage(TableFrontStage):
    """Keeps the keys with the most hits per byte; `probabilities` are at most 1, and 0 for keys that never come in.

    Guarantee: keys and rows take at most `size_bytes`. It is a bound, so that what leads to them is not counted, which no
    store can do without; a join's memory is exceeded by that much. It still has to read a key from R once.
    """

    def __init__(
        self,
        size_bytes: int,
        *,
        layout: RowLayout,
        fixed: bool,
        row_bytes: float,
        decode_bytes: int,
        probabilities: Probabilities,
    ) -> None:
        self._probabilities = probabilities
        self._size_bytes = size_bytes
        more = (UNCOUNTED_BYTES_MAX + 8) / 8
        table = EntryTable(
            min(SIZE_MAX_BYTES, int(more * size_bytes) + LISTS_BYTES),
            layout=layout, fixed=fixed, row_bytes=more * row_bytes, lists=CLASSES,
        )  # fmt: skip
        super().__init__(table, decode_bytes=decode_bytes)

    def adapt(self, cycles: int) -> None:
        """What is known does not change; gaps are closed before they are as much as what lives."""
        if self._table.held_bytes > self._table.fixed_bytes + 2 * self._table.live_bytes:
            self._table.compact()

    def _admit(self, offers: Offers, known: I64, rows: MasterRows) -> None:
        """Only those whose probability is above 0."""
        self._take_in(offers.chosen((known == MISS) & (self._probabilities(offers.keys) > 0)), rows)

    def _take(self, keys: KeyBatch, sightings: I64, sizes: I64, newcomers: I64) -> None:
        kernels.take(
            self._table.place, newcomers, keys.hashes, self._probabilities(keys), sizes, self._size_bytes
        )  # fmt: skip


def belady_hits(keys: npt.NDArray[np.int64], keys_max: int) -> int:
    """The most hits that any cache of `keys_max` keys can have on this sequence of keys, where who is not worth it
    need not be cached. For rows of one size; O(n log n).

    >>> belady_hits(np.array([1, 2, 3, 1, 2, 3]), 2)
    2

    L. Belady: "A study of replacement algorithms for virtual-storage computers", IBM Systems Journal 5(2), 1966.
    """
    _, dense = np.unique(keys, return_inverse=True)
    order = np.argsort(dense, kind="stable")
    next_use = np.full(keys.size, keys.size, np.int64)
    follows = dense[order[1:]] == dense[order[:-1]]
    next_use[order[:-1][follows]] = order[1:][follows]
    return int(kernels.belady(dense.astype(np.int64), next_use, keys_max))
