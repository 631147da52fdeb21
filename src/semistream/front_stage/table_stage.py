"""What front stages over an `EntryTable` have in common: all but the policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.contracts import I64, MISS, Answers, ChunkLimit, JoinKind, MasterRows, Matches, Pairs
from semistream.core.keys import KeyBatch
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.front_stage.entry_table import ENTRY_SHARE_MAX, EntryTable


@dataclass(frozen=True, kw_only=True, eq=False)
class Offers:
    """Whole keys that R brought: counts[j] rows, one after the other in `row_at`, belong to key j, for which
    sightings[j] stream rows wait."""

    keys: KeyBatch
    sightings: I64
    counts: I64
    row_at: I64

    @classmethod
    def of(cls, matches: Matches) -> Offers:
        """All keys; the whole ones are to be chosen."""
        return cls(
            keys=matches.keys,
            sightings=matches.sightings,
            counts=matches.counts,
            row_at=matches.row_at,
        )

    def chosen(self, mask: npt.NDArray[np.bool_]) -> Offers:
        if mask.all():
            return self
        index = np.flatnonzero(mask)
        return Offers(
            keys=self.keys.take(index),
            sightings=self.sightings[index],
            counts=self.counts[index],
            row_at=self.row_at[np.repeat(mask, self.counts)],
        )

    def part(self, start: int, stop: int, key_ends: I64) -> Offers:
        return Offers(
            keys=self.keys.slice(start, stop),
            sightings=self.sightings[start:stop],
            counts=self.counts[start:stop],
            row_at=self.row_at[key_ends[start] : key_ends[stop]],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoded:
    """Keys with the columns of their rows; entry_bytes[j] is the arena's part of the entry of key j."""

    offers: Offers
    columns: list[pa.Array]
    row_sizes: I64
    entry_bytes: I64


class TableFrontStage:
    """Answers from an `EntryTable`; a policy, which is a subclass, says who comes in and who leaves.

    A policy gives `adapt` and `_take`, and where it needs to know of hits, `_touch`. Memory: the table, and up to
    `decode_bytes` while rows are taken.
    """

    def __init__(self, table: EntryTable, *, decode_bytes: int) -> None:
        self._table = table
        self._decode_bytes = decode_bytes // 2  # rows that are not taken after all are filtered by a copy

    @property
    def layout(self) -> RowLayout:
        return self._table.layout

    def probe(self, keys: KeyBatch, start: int, misses_max: int) -> Answers:
        answers = self._table.probe(keys, start, misses_max)
        self._touch(answers, keys, start)
        return answers

    def pairs(self, answers: Answers, kind: JoinKind, limit: ChunkLimit) -> Iterator[Pairs]:
        return self._table.pairs(answers, kind, limit)

    def admit(self, matches: Matches, rows: MasterRows) -> None:
        """Shows the policy whole keys that are not there yet."""
        if matches.whole.any():
            self._offer(Offers.of(matches).chosen(matches.whole), rows)

    def report(self, metrics: JoinMetrics) -> None:
        metrics.front_stage_keys, metrics.front_stage_rows = self._table.entries, self._table.rows
        metrics.front_stage_bytes = self._table.held_bytes
        metrics.switched = self._table.switched

    def check_invariants(self) -> None:
        self._table.check_invariants()

    def close(self) -> None:
        self._table.close()

    # -- what a policy may say ---------------------------------------------------------------------------

    def _touch(self, answers: Answers, keys: KeyBatch, start: int) -> None:
        """Is told of all rows that were looked up."""

    def _admit(self, offers: Offers, known: I64, rows: MasterRows) -> None:
        """`known[j]`: the record of key j, 0 if it is new."""
        self._take_in(offers.chosen(known == MISS), rows)

    def _take(self, keys: KeyBatch, sightings: I64, sizes: I64, newcomers: I64) -> None:
        """Makes room and a record for each key that is to come in, whose entry takes sizes[j] bytes of the arena;
        newcomers[j] is 0 for all others."""
        raise NotImplementedError

    # -- inside ------------------------------------------------------------------------------------------

    def _offer(self, offers: Offers, rows: MasterRows) -> None:
        known = self._table.probe(offers.keys, 0, len(offers.keys) + 1).entries
        self._admit(offers, known, rows)

    def _take_in(self, offers: Offers, rows: MasterRows) -> None:
        for part in self._decoded(offers, rows):
            newcomers = np.zeros(len(part.offers.keys), np.int64)
            self._take(part.offers.keys, part.offers.sightings, part.entry_bytes, newcomers)
            self._table.settle(newcomers, part.offers.keys, part.offers.counts, part.row_sizes, part.columns)

    def _decoded(self, offers: Offers, rows: MasterRows) -> Iterator[Decoded]:
        """The same keys, some at a time, without those that are too large."""
        if not len(offers.keys):
            return
        table, key_ends = self._table, np.concatenate([[0], np.cumsum(offers.counts)])
        for start, stop in self._pieces(key_ends, rows.sizes(offers.row_at)):
            part = offers.part(start, stop, key_ends)
            columns = rows.decode(part.row_at)
            row_sizes = table.layout.sizes(columns, part.row_at.size)
            ends = np.concatenate([[0], np.cumsum(row_sizes)])
            body_bytes = np.diff(ends[key_ends[start : stop + 1] - key_ends[start]])
            yield Decoded(
                offers=part,
                columns=columns,
                row_sizes=row_sizes,
                entry_bytes=table.entry_bytes(part.keys, body_bytes),
            )

    def _pieces(self, key_ends: I64, row_sizes: I64) -> Iterator[tuple[int, int]]:
        """Runs of keys whose rows may be decoded together. A key whose rows take more than that, or more than one
        key may, is left out."""
        most = min(self._decode_bytes, int(self._table.size_bytes * ENTRY_SHARE_MAX))
        reached = np.concatenate([[0], np.cumsum(row_sizes)])[key_ends]
        start, keys = 0, key_ends.size - 1
        while start < keys:
            stop = int(np.searchsorted(reached, reached[start] + most, side="right")) - 1
            if stop > start:
                yield start, stop
            start = max(stop, start + 1)
