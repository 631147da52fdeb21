"""What the demo shows: its steps while they run, and the table at the end."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyspark.sql import Row
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from semistream.core.budget import format_bytes
from semistream.core.metrics import JoinMetrics
from semistream.spark.follow import Batch

OUTPUT = "output"  # the name under which count and checksums are observed


@dataclass
class Run:
    """What one streaming query did, and the (rows, checksums) of all it put out."""

    name: str
    batches: list[Batch] = field(default_factory=list)

    @property
    def batch_s(self) -> float:
        return statistics.median(batch.seconds for batch in self.batches)

    @property
    def output(self) -> tuple[int, ...]:
        rows = [batch.observed[OUTPUT] for batch in self.batches]
        return tuple(sum(column) for column in zip(*(counted(row) for row in rows), strict=True))

    @property
    def joined(self) -> JoinMetrics:
        total = JoinMetrics()
        for batch in self.batches:
            total.add(batch.join or JoinMetrics())
        return total


def counted(row: Row) -> tuple[int, ...]:
    return tuple(int(row[name] or 0) for name in ("rows", "low", "high"))


def results(ours: Run, sparks: Run, batch_rows: int, optimum: float) -> Table:
    """The short table at the end."""
    joined, last = ours.joined, ours.batches[-1].join or JoinMetrics()
    peak = max((b.join.budget_peak_bytes, b.join.budget_bytes) for b in ours.batches if b.join)
    table = Table(
        "",
        "semistream",
        "Spark stream-static",
        title=f"batches of {batch_rows:,} orders",
        title_justify="left",
    )
    table.columns[1].justify = table.columns[2].justify = "right"
    both = (ours, sparks)
    table.add_row("rows/s", *(f"{batch_rows / run.batch_s:,.0f}" for run in both))
    table.add_row("batch latency (median)", *(f"{run.batch_s * 1000:,.0f} ms" for run in both))
    table.add_row("ratio", f"{sparks.batch_s / ours.batch_s:.1f} x", "1")
    table.add_section()
    table.add_row("hit ratio, whole run", f"{joined.hit_ratio:.3f}", "")
    table.add_row("hit ratio, last batch", f"{last.hit_ratio:.3f}", "")
    table.add_row("  best of any cache", f"{optimum:.3f}", "")
    table.add_row("pages read per batch", f"{joined.pages_read / len(ours.batches):,.0f}", "whole table")
    table.add_row("memory: budget peak", " of ".join(format_bytes(size) for size in peak), "none")
    return table


class Steps:
    """Numbered lines: what a step does while it runs, what came out and how long it took behind it."""

    def __init__(self, console: Console) -> None:
        self.console, self._number = console, 0

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        found: list[str] = []
        with self._timed(title, found), self.console.status(title):
            yield found.append

    @contextlib.contextmanager
    def bar(self, title: str, *, total: int) -> Iterator[Callable[[Batch], None]]:
        found: list[str] = []
        columns = (
            SpinnerColumn(),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
            TextColumn("{task.description}"),
        )
        with self._timed(title, found), Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("", total=total)

            def show(batch: Batch) -> None:
                text = f"{batch.rows / max(batch.seconds, 1e-3):,.0f} rows/s"
                if batch.join:
                    text += f"  hit ratio {batch.join.hit_ratio:.3f}"
                progress.update(task, advance=batch.rows, description=text)
                found[:] = [f"{batch.batch_id + 1} micro-batches"]

            yield show

    @contextlib.contextmanager
    def _timed(self, title: str, found: list[str]) -> Iterator[None]:
        self._number += 1
        self.console.print(f"[bold]{self._number}[/] {title}")
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.console.print(f"  [green]{', '.join([*found, f'{seconds:.1f} s'])}[/]")
