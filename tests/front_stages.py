"""Front stages at work, without a join around them: rows are asked for, those that miss wait, and R is read for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from semistream.core.contracts import MISS, FrontStage
from semistream.core.keys import KeyBatch
from semistream.core.metrics import JoinMetrics
from semistream.core.rows import RowLayout
from semistream.front_stage import _table_kernels as kernels
from semistream.front_stage.entry_table import EntryTable
from semistream.testing.fakes import Row, RowsInMemory, encode_keys, waiting_for

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
LAYOUT = RowLayout(SCHEMA, 2)
ROW_BYTES_MIN = 10  # null bits, the number, where the text ends

WidthOf = Callable[[int], int | None]  # the length of a key's text; None: R lacks the key


def cost_of(width: int | None, rows: int = 1) -> int:
    """What a key takes in an `EntryTable`: record, and entry with its number."""
    body = 0 if width is None else rows * (ROW_BYTES_MIN + width)
    return 32 + -(-(16 + body) // 4) * 4


def rows_of(number: int, width: int | None, rows: int = 1) -> list[Row]:
    return [] if width is None else [(number, "x" * width)] * rows


def ask(stage: FrontStage, numbers: Sequence[int]) -> list[int]:
    """Asks for all of them, and returns those that missed."""
    entries = stage.probe(encode_keys(numbers, fixed=True), 0, len(numbers) + 1).entries
    return [number for number, entry in zip(numbers, entries.tolist(), strict=True) if entry == MISS]


def bring(
    stage: FrontStage, sightings: dict[int, int], width_of: WidthOf, *, rows: int = 1, leaving: bool = True
) -> None:
    """R is read for keys for which so many rows wait."""
    if sightings:
        master = RowsInMemory(SCHEMA, {n: rows_of(n, width_of(n), rows) for n in sightings})
        waiting, ordered = waiting_for(sightings, fixed=True)
        for matches in master.matches(waiting, ordered, 1 << 20):
            stays = np.full(matches.counts.size, leaving)
            stage.admit(replace(matches, leaving=stays), master)


def drain(stage: FrontStage, numbers: Sequence[int], width_of: WidthOf = lambda _: 80) -> int:
    """A batch, and a read of R for all that missed; returns how many hit."""
    missed = ask(stage, numbers)
    bring(stage, dict(Counter(missed)), width_of)
    stage.adapt(0)
    return len(numbers) - len(missed)


def report(stage: FrontStage) -> JoinMetrics:
    metrics = JoinMetrics()
    stage.report(metrics)
    return metrics


def held(stage: Any, numbers: Iterable[int]) -> list[list[int]]:
    """The numbers in each list of the stage's table, first to last, read as the kernels' docstring has it."""
    table: EntryTable = stage._table
    words = {int(word): n for n, word in zip(numbers, _prefixes(numbers).tolist(), strict=True)}
    memory, found = table._bytes.tobytes(), []
    for head, _, _ in table._lists.tolist():
        found.append([])
        record = head
        while record:
            start = len(memory) - 32 * record
            at, _, _, _, after, _, _, _ = np.frombuffer(memory[start : start + 32], np.uint32).tolist()
            entry = 4 * (at - 1)
            found[-1].append(words[int.from_bytes(memory[entry + 8 : entry + 16], "little")])
            record = after
    assert table.entries == sum(map(len, found))
    return found


def hash_of(number: int) -> int:
    return int(encode_keys([number], fixed=True).hashes[0])


def zipf(rng: np.random.Generator, keys: int, count: int, exponent: float = 1.0) -> list[int]:
    weights = np.arange(1, keys + 1) ** -exponent
    return rng.choice(keys, count, p=weights / weights.sum()).tolist()


def zipf_probabilities(keys: int, exponent: float = 1.0) -> Callable[[KeyBatch], np.ndarray]:
    weights = np.arange(1, keys + 1) ** -exponent
    known = dict(zip(_prefixes(range(keys)).tolist(), (weights / weights.sum()).tolist(), strict=True))
    return lambda asked: np.array([known[word] for word in asked.prefix.tolist()])


def _prefixes(numbers: Iterable[int]) -> np.ndarray:
    return encode_keys(list(numbers), fixed=True).prefix


assert kernels.RECORD_BYTES == 32
