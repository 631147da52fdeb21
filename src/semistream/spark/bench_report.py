"""What the benchmark has to reach, whether it did, and its results as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

RATIO_TARGETS = {
    (10_000_000, 100_000): 5.0,
    (10_000_000, 1_000_000): 2.0,
    (100_000_000, 100_000): 40.0,
    (100_000_000, 1_000_000): 8.0,
}
GROWTH_MAX = 1.3
HIT_RATIO_SHARE_MIN = 0.97
PIPE_SHARE_MIN = 0.6


def checks(results: Iterable[dict[str, Any]]) -> list[tuple[str, bool, str]]:
    """Every target of the benchmark that these results can answer: its name, whether met, what was found."""
    by_case = {(r["table_rows"], r["batch_rows"]): r for r in results}
    found: list[tuple[str, bool, str]] = []
    for (rows, batch), target in RATIO_TARGETS.items():
        if result := by_case.get((rows, batch)):
            name = f"{short_count(rows)} rows, {short_count(batch)} batches: at least {target:g} x Spark"
            found.append((name, result["ratio"] >= target, f"{result['ratio']:.1f} x"))
    for batch in sorted({batch for _, batch in by_case}):
        small, big = by_case.get((1_000_000, batch)), by_case.get((10_000_000, batch))
        if small and big:
            growth = big["ours_batch_s"] / small["ours_batch_s"]
            name = f"{short_count(batch)} batches: at 10 M rows at most {GROWTH_MAX} x the time at 1 M"
            found.append((name, growth <= GROWTH_MAX, f"{growth:.2f} x"))
    for (rows, batch), result in by_case.items():
        case = f"{short_count(rows)} rows, {short_count(batch)} batches"
        share = result["hit_ratio"] / result["optimal_hit_ratio"]
        name = f"{case}: hit ratio at least {HIT_RATIO_SHARE_MIN} of the optimum"
        found.append((name, share >= HIT_RATIO_SHARE_MIN, f"{share:.3f}"))
        if batch >= 1_000_000:
            share = result["ours_rows_s"] / result["pipe_rows_s"]
            name = f"{case}: rows/s at least {PIPE_SHARE_MIN} of the bare pipe"
            found.append((name, share >= PIPE_SHARE_MIN, f"{share:.2f}"))
    return found


def results_table(results: Iterable[dict[str, Any]]) -> Table:
    """Medians per batch, and the rows per second that follow from them."""
    table = Table(title="semistream against Spark's stream-static join (medians, noop sink)")
    # Two lines a cell: the whole table fits 80 columns.
    for name in ("table\nmemory", "batch", "ours", "Spark", "ratio", "bare pipe", "hit ratio\noptimum"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in results:
        ours, spark, pipe = (
            f"{r[f'{side}_batch_s']:.3f} s\n{r[f'{side}_rows_s'] / 1000:.0f} k/s"
            for side in ("ours", "spark", "pipe")
        )
        memory = f"{r['memory_bytes'] / 2**20:.0f} MiB"
        hits = f"{r['hit_ratio']:.4f}\n{r['optimal_hit_ratio']:.4f}"
        batch = short_count(r["batch_rows"])
        table.add_row(
            f"{short_count(r['table_rows'])}\n{memory}", batch, ours, spark, f"{r['ratio']:.1f} x", pipe, hits
        )
    return table


def short_count(rows: int) -> str:
    """`100 k` or `10 M`."""
    return f"{rows // 10**6} M" if rows % 10**6 == 0 else f"{rows // 1000} k"
