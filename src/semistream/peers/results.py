"""What was measured, one object per cell, as `build/bench-peers.json` holds it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from semistream.core.budget import format_bytes
from semistream.spark.bench_report import short_count

Cache = Literal["warm", "cold"]
CACHES: tuple[Cache, ...] = ("warm", "cold")


@dataclass(frozen=True, kw_only=True, order=True)
class Place:
    """What all contestants of a cell have in common."""

    table_rows: int
    memory_bytes_allowed: int
    batch_rows: int
    cache: Cache

    def __str__(self) -> str:
        return (
            f"{short_count(self.table_rows)} rows, {format_bytes(self.memory_bytes_allowed)} allowed, "
            f"{self.cache}, batches of {short_count(self.batch_rows)}"
        )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One contestant at one place. Where it could not run, `failed` says why and the figures are None.

    Parameters
    ----------
    family: "library" or "spark"; see `registry.Entry`.
    memory_bytes_given: what it was told to use, which is more than allowed where it does not run in that; None if it has
        no such setting.
    table_bytes, fits_in_memory: the values of the table alone, and whether that is within the memory allowed.
    rows_s: of the median batch.
    p50_s, p99_s, batches: of the latencies of that many batches.
    peak_rss_bytes: the most memory of its own that the process and its children held, the page cache not included.
    mapped_bytes: the most they had mapped of files, which is the page cache's.
    resident_share: of its files, what the page cache held when a batch began; the lowest if warm, the highest if cold;
        None if it reads no files.
    warm_up_rows: stream rows it got before.
    load: of the machine, when the cell was done; two threads of the contestant are in it.
    """

    peer: str
    family: str
    table_rows: int
    batch_rows: int
    cache: Cache
    memory_bytes_allowed: int
    memory_bytes_given: int | None = None
    table_bytes: int
    fits_in_memory: bool
    threads: int
    rows_s: float | None = None
    p50_s: float | None = None
    p99_s: float | None = None
    batches: int = 0
    peak_rss_bytes: int | None = None
    mapped_bytes: int | None = None
    resident_share: float | None = None
    warm_up_rows: int = 0
    load: float | None = None
    notes: tuple[str, ...] = ()
    failed: str | None = None

    @property
    def place(self) -> Place:
        return Place(
            table_rows=self.table_rows,
            memory_bytes_allowed=self.memory_bytes_allowed,
            batch_rows=self.batch_rows,
            cache=self.cache,
        )


def latencies(batch_rows: int, seconds: list[float]) -> dict[str, Any]:
    """The figures of a cell that follow from its batches."""
    p50, p99 = (float(np.quantile(seconds, share)) for share in (0.5, 0.99))
    return {"rows_s": batch_rows / p50, "p50_s": p50, "p99_s": p99, "batches": len(seconds)}


def read(path: Path) -> list[Cell]:
    """The cells in the file; none if it is missing."""
    if not path.exists():
        return []
    known = {field.name for field in fields(Cell)}
    found = []
    for each in json.loads(path.read_text()):
        values = {name: value for name, value in each.items() if name in known}
        found.append(Cell(**(values | {"notes": tuple(values.get("notes", ()))})))
    return found


def write(path: Path, cells: Iterable[Cell]) -> None:
    ordered = sorted(cells, key=lambda cell: cell.place)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(json.dumps([asdict(cell) for cell in ordered], indent=1) + "\n")
    draft.replace(path)


def by_place(cells: Iterable[Cell]) -> dict[Place, dict[str, Cell]]:
    """The cells of each place by contestant, in the order of places."""
    found: dict[Place, dict[str, Cell]] = {}
    for cell in sorted(cells, key=lambda cell: cell.place):
        found.setdefault(cell.place, {})[cell.peer] = cell
    return found


def short_rate(rows_s: float) -> str:
    """Three digits.

    >>> [short_rate(rate) for rate in (1_234_567.0, 56_789.0, 123.4)]
    ['1.23 M', '56.8 k', '123']
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if rows_s >= size:
            digits = max(0, 2 - int(math.log10(rows_s / size)))
            return f"{rows_s / size:.{digits}f} {unit}"
    return f"{rows_s:.0f}"


def short_time(seconds: float) -> str:
    """Three digits.

    >>> [short_time(seconds) for seconds in (12.34, 0.0456, 0.000789)]
    ['12.3 s', '45.6 ms', '0.789 ms']
    """
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1000 * seconds:.3g} ms"
