"""What a join counts, and the law the counts obey."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields


@dataclass(kw_only=True)
class JoinMetrics:
    """Counters of one task's run, or of a whole micro-batch when added up.

    Conservation: rows_in = rows_matched + rows_unmatched + rows_waiting + rows_shed, at every moment
    between two calls of the loop. `hits` are rows that the front stage answered, `negative_hits` those of
    them it answered with "no such key", `misses` the rows it could not answer; a null key is neither.
    Bytes are the highest value of the run, summed over tasks. `lookups` and `scans` count how often a shard was
    read by picking pages or by reading through; `read_ns` is the time that took, `cpu_ns` the process's.

    Where output keeps the order of the stream: `rows_held` stream rows have left the loop before their turn, and
    `rows_out_held` output rows are held, at most `rows_out_held_peak` at once; `rows_out_held_steps` adds them up over the
    steps. `rows_rejoined` stream rows had more output than could be held and came in again: all other counters count
    them again, and rows_out the `rows_dropped` output rows.

    What virtual time is made of (`cost_model.clock`): `steps` of the loop; `read_requests` for stretches of pages,
    `random_reads` of them at another place than where the last one ended, `random_reads_overlapped` with
    many in flight; `probes` of H_R and H_S; `appends` to and `removals` from H_S and Q; master rows `switched` into
    the front stage. `cycles`: how often R was read through.
    """

    rows_in: int = 0
    rows_out: int = 0
    rows_matched: int = 0
    rows_unmatched: int = 0
    rows_waiting: int = 0
    rows_shed: int = 0
    rows_held: int = 0
    rows_out_held: int = 0
    rows_out_held_peak: int = 0
    rows_out_held_steps: int = 0
    rows_rejoined: int = 0
    rows_dropped: int = 0
    null_keys: int = 0
    hits: int = 0
    negative_hits: int = 0
    misses: int = 0
    drains: int = 0
    lookups: int = 0
    scans: int = 0
    steps: int = 0
    cycles: int = 0
    read_requests: int = 0
    random_reads: int = 0
    random_reads_overlapped: int = 0
    probes: int = 0
    appends: int = 0
    removals: int = 0
    switched: int = 0
    pages_read: int = 0
    bytes_read: int = 0
    front_stage_keys: int = 0
    front_stage_rows: int = 0
    front_stage_bytes: int = 0
    front_stage_cold_starts: int = 0
    budget_peak_bytes: int = 0
    budget_bytes: int = 0
    task_ns: int = 0
    read_ns: int = 0
    cpu_ns: int = 0

    def check_invariants(self) -> None:
        """AssertionError if a row was lost or counted twice."""
        left = self.rows_matched + self.rows_unmatched + self.rows_waiting + self.rows_shed
        assert self.rows_in == left, f"{self.rows_in} rows in, {left} accounted for: {self}"
        assert self.rows_in == self.hits + self.misses + self.null_keys, self
        assert self.negative_hits <= self.hits, self
        assert self.budget_peak_bytes <= self.budget_bytes, self

    def add(self, other: JoinMetrics) -> None:
        for name in METRIC_NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_bytes(self) -> bytes:
        """The counters in the order of METRIC_NAMES: how they travel out of a Spark task."""
        return struct.pack(_FORMAT, *(getattr(self, name) for name in METRIC_NAMES))

    @classmethod
    def from_bytes(cls, packed: bytes) -> JoinMetrics:
        return cls(**dict(zip(METRIC_NAMES, struct.unpack(_FORMAT, packed), strict=True)))

    @property
    def hit_ratio(self) -> float:
        probes = self.hits + self.misses
        return self.hits / probes if probes else 0.0


METRIC_NAMES = tuple(field.name for field in fields(JoinMetrics))
_FORMAT = f"<{len(METRIC_NAMES)}q"
