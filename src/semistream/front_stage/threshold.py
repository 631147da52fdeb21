"""The generic front stage of CMESHJOIN, CHYBRIDJOIN and CINLJ: a frequency recorder and a threshold.

| papers | here |
|---|---|
| 004 Alg. 1 line 16, 000 Alg. 1 line 16: f = number of matching stream tuples in H_S | `FrequencyDetector.frequencies`, of `Matches.sightings` |
| 004 line 17 (f > thresholdValue), 000 line 19 (f >= thresholdValue) | f >= `threshold`, as in the later paper |
| 004 line 18 (SWITCH r into H_R), 000 line 20 (OVERWRITE the least frequent tuple in H_R) | kernel `take`: while the entry does not fit, the least frequent key leaves, of these the oldest |
| 000 line 21 (UPDATE frequency recorder with r and f) | the record's list is its frequency: f when it comes in; `raise_to` when more of its rows were waiting |
| 004 sect. 3: the recorder holds the access frequency of each tuple in H_R | `count_hits` |
| 000 line 17 (DELETE matched tuples), 004 line 22 (DELETE the oldest w tuples) | the access path's and the waiting room's |
| the threshold goes down while the cache is not full, up when evictions are too frequent | `adapt`, once per epoch |

Ours, where the papers leave it open: an epoch is as many missed stream rows as there are keys in the cache; evictions
are too frequent when more than `evictions_share_max` of the keys were overwritten in it; and all recorded frequencies
are halved after AGE_ACCESSES accesses per key, since a key that once was frequent would stay forever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from semistream.core.contracts import I64, MISS, Answers, MasterRows, Matches
from semistream.core.keys import KeyBatch
from semistream.core.rows import RowLayout
from semistream.front_stage import _threshold_kernels as kernels
from semistream.front_stage.entry_table import ENTRY_SHARE_MAX, EntryTable
from semistream.front_stage.frequency import FrequencyDetector, RowsMatched
from semistream.front_stage.table_stage import Offers, TableFrontStage

FREQUENCIES = 256  # 0..255; what is more frequent counts as 255
FREQUENCIES_OF_SMALL = 16
SMALL_BYTES = 1 << 18
EPOCH_ROWS_MIN = 1000
AGE_ACCESSES = 16
FULL_SHARE = 7 / 8  # of its bytes: from there on, the cache is full


@dataclass(frozen=True, kw_only=True)
class ThresholdSettings:
    """`threshold` is the first one if it is `adaptive`, else the only one. The papers cache tuples of R; with
    `absent_keys`, keys that R lacks come in, too."""

    threshold: int = 2
    absent_keys: bool = False
    adaptive: bool = True
    evictions_share_max: float = 1 / 8


class ThresholdFrontStage(TableFrontStage):
    """Keys enter when f >= threshold, in the place of the least frequent ones.

    Guarantee: holds at most `size_bytes`, those of the detector and of the recorder included. Cost: O(1) per hit and
    per eviction.

    004 Algorithm 1 and section 3.1; 000 Algorithm 1 and sections 3.1-3.3.
    """

    def __init__(
        self,
        size_bytes: int,
        *,
        layout: RowLayout,
        fixed: bool,
        row_bytes: float,
        decode_bytes: int,
        settings: ThresholdSettings | None = None,
        detector: FrequencyDetector | None = None,
    ) -> None:
        self._settings = settings or ThresholdSettings()
        self._detector: FrequencyDetector = detector or RowsMatched()
        self.threshold = max(1, self._settings.threshold)
        lists = FREQUENCIES if size_bytes >= SMALL_BYTES else FREQUENCIES_OF_SMALL
        table = EntryTable(
            size_bytes - self._detector.size_bytes,
            layout=layout,
            fixed=fixed,
            row_bytes=row_bytes,
            lists=lists,
        )
        super().__init__(table, decode_bytes=decode_bytes)
        self._accesses = self._missed = self._evictions_before = 0

    def admit(self, matches: Matches, rows: MasterRows) -> None:
        frequencies = self._detector.frequencies(matches.keys, matches.sightings)
        frequent = matches.whole & (frequencies >= self.threshold)
        if not self._settings.absent_keys:
            frequent &= matches.counts > 0
        if frequent.any():
            offers = replace(Offers.of(matches), sightings=frequencies)
            self._offer(offers.chosen(frequent), rows)

    def adapt(self, cycles: int) -> None:
        if self._accesses >= AGE_ACCESSES * max(1, self._table.entries):
            kernels.halve(self._table.place)
            self._accesses = 0
        if self._settings.adaptive and self._missed >= max(EPOCH_ROWS_MIN, self._table.entries):
            self._move_threshold()

    def _move_threshold(self) -> None:
        table = self._table
        evictions = table.evictions - self._evictions_before
        if evictions > self._settings.evictions_share_max * max(1, table.entries):
            self.threshold += 1
        elif table.live_bytes < FULL_SHARE * table.capacity_bytes:
            self.threshold = max(1, self.threshold - 1)
        self._missed, self._evictions_before = 0, table.evictions

    def _touch(self, answers: Answers, keys: KeyBatch, start: int) -> None:
        self._accesses += kernels.count_hits(self._table.place, answers.entries)
        self._missed += answers.misses

    def _admit(self, offers: Offers, known: I64, rows: MasterRows) -> None:
        kernels.raise_to(self._table.place, known, offers.sightings)
        self._take_in(offers.chosen(known == MISS), rows)

    def _take(self, keys: KeyBatch, sightings: I64, sizes: I64, newcomers: I64) -> None:
        size_max = int(self._table.capacity_bytes * ENTRY_SHARE_MAX)
        kernels.take(self._table.place, newcomers, keys.hashes, sightings, sizes, size_max)
        self._accesses += int(np.minimum(sightings, FREQUENCIES)[newcomers > 0].sum())
