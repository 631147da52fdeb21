"""The front stage is soft: whatever happens to its file between and within batches, the output stays right."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.oracle import bag, joined

from semistream.core.contracts import JOIN_KINDS
from semistream.front_stage.region import Region
from semistream.joins import RunningJoin, minimum_task_bytes, resolve_shape, start_join
from semistream.master_table.builder import build_store
from semistream.master_table.page_store import MasterTable

KEYS = 400
HEADER_WORDS = 11


def master_of(kind: str) -> pa.Table:
    numbers = [n for n in range(KEYS) for _ in range(n % 3)]  # every third key is absent
    keys = pa.array(numbers, pa.int64()) if kind == "int64" else pa.array([f"k{n}" for n in numbers])
    return pa.table({"k": keys, "v": pa.array([f"{i}" * (i % 40) for i in range(len(numbers))])})


class SoftState(RuleBasedStateMachine):
    """Batches are joined while the front stage's file is dropped, exchanged, held by others, or damaged."""

    @initialize(kind=st.sampled_from(["int64", "string"]), how=st.sampled_from(sorted(JOIN_KINDS)))
    def begin(self, kind: str, how: str) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.kind, self.how, self.master = kind, how, master_of(kind)
        self.table: MasterTable = build_store(self.master, self.directory / "s", key="k", page_size=512)
        schema = pa.schema([("k", self.master.schema.field("k").type), ("id", pa.int64())])
        self.shape = resolve_shape(schema, self.table, on="k", how=how, columns=None, suffix=None)
        self.file, self.generation, self.ids = self.directory / "front0", 0, 0
        self.join: RunningJoin | None = None
        self.holder: Region | None = None
        self.pushed: list[pa.RecordBatch] = []
        self.out: list[pa.RecordBatch] = []

    @property
    def size_bytes(self) -> int:
        return minimum_task_bytes(self.table, [0]) + 3000

    def _opened(self) -> RunningJoin:
        if self.join is None:
            self.join = start_join(
                self.table,
                self.shape,
                memory_bytes=self.size_bytes,
                region_source=lambda size: Region.shared(self.file, size),
                identity="the same",
            )
        return self.join

    @rule(first=st.integers(0, KEYS - 1), count=st.integers(1, KEYS), step=st.sampled_from([1, 3, 7]))
    def push(self, first: int, count: int, step: int) -> None:
        numbers = (first + step * np.arange(count)) % (KEYS + 20)
        keys = pa.array(numbers) if self.kind == "int64" else pa.array([f"k{n}" for n in numbers])
        nulls = pa.array([None], keys.type)
        keys = pa.concat_arrays([keys, nulls])
        ids = pa.array(range(self.ids, self.ids + len(keys)), pa.int64())
        self.ids += len(keys)
        batch = pa.RecordBatch.from_arrays(
            [keys, ids], schema=pa.schema([("k", keys.type), ("id", pa.int64())])
        )
        self.pushed.append(batch)
        self.out += self._opened().push(batch)

    @rule()
    def flush(self) -> None:
        self.out += self._opened().flush()

    @rule()
    def finish_the_batch(self) -> None:
        """What a Spark task does at the end of a micro-batch."""
        join = self._opened()
        self.out += join.flush()
        join.finish()
        join.close()
        self.join = None

    @rule()
    def delete_the_file(self) -> None:
        self.file.unlink(missing_ok=True)

    @rule(size=st.sampled_from([0, 100, 5000, 1 << 20]))
    def replace_by_a_file_of_another_size(self, size: int) -> None:
        self._renamed()
        self.file.write_bytes(os.urandom(size))

    @rule(word=st.integers(0, HEADER_WORDS - 1), bit=st.integers(0, 62))
    def flip_a_bit_of_the_header(self, word: int, bit: int) -> None:
        if self.join is None and self.file.exists() and self.file.stat().st_size > 4096:
            content = bytearray(self.file.read_bytes())
            content[8 * word + bit // 8] ^= 1 << bit % 8
            self._renamed()
            self.file.write_bytes(content)

    @rule()
    def leave_it_marked_as_being_changed(self) -> None:
        if self.join is None and self.file.exists() and self.file.stat().st_size > 4096:
            with self.file.open("r+b") as file:
                file.seek(8)
                file.write((1).to_bytes(8, "little"))

    @rule()
    def let_another_attempt_hold_it(self) -> None:
        if self.join is None and self.holder is None:
            self.holder = Region.shared(self.file, 50_000)

    @rule()
    def let_the_other_attempt_go(self) -> None:
        if self.holder is not None:
            self.holder.close()
            self.holder = None

    def _renamed(self) -> None:
        # Old files stay, so that no new one gets their number: a process knows files by it.
        self.generation += 1
        self.file = self.directory / f"front{self.generation}"

    @invariant()
    def nothing_is_lost_or_doubled_so_far(self) -> None:
        if getattr(self, "join", None) is not None:
            assert self.join is not None
            self.join.metrics.check_invariants()
            self.join.budget.check_invariants()

    def teardown(self) -> None:
        if not hasattr(self, "directory"):
            return
        try:
            if self.join is not None or not self.pushed:
                self.finish_the_batch()
            schema = pa.schema([("k", self.master.schema.field("k").type), ("id", pa.int64())])
            stream = pa.Table.from_batches(self.pushed, schema)
            expected = joined(stream, self.master, stream_key=["k"], master_key=["k"], how=self.how)
            assert bag(self.out) == expected
        finally:
            self.let_the_other_attempt_go()
            shutil.rmtree(self.directory)


TestSoftState = SoftState.TestCase
TestSoftState.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
