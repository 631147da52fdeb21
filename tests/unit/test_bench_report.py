"""The benchmark's verdicts, on made-up results."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from semistream.spark.bench_report import checks, results_table, short_count


def result(table_rows: int, batch_rows: int, **changed: float) -> dict[str, Any]:
    return {
        "table_rows": table_rows,
        "batch_rows": batch_rows,
        "memory_bytes": table_rows * 6,
        **{f"{side}_batch_s": 0.5 for side in ("ours", "spark", "pipe")},
        **{f"{side}_rows_s": batch_rows * 2 for side in ("ours", "spark", "pipe")},
        "ratio": 5.0,
        "hit_ratio": 0.8,
        "optimal_hit_ratio": 0.82,
        **changed,
    }


def test_only_cases_that_ran_are_judged() -> None:
    assert checks([]) == []
    names = [name for name, _, _ in checks([result(10_000_000, 100_000)])]
    assert names == [
        "10 M rows, 100 k batches: at least 5 x Spark",
        "10 M rows, 100 k batches: hit ratio at least 0.97 of the optimum",
    ]


def test_every_target_is_met_or_not_by_itself() -> None:
    good = [result(1_000_000, 1_000_000), result(10_000_000, 1_000_000)]
    assert all(met for _, met, _ in checks(good))
    assert len(checks(good)) == 6
    for changed, part in [
        ({"ratio": 1.9}, "x Spark"),
        ({"ours_batch_s": 0.66}, "the time at 1 M"),
        ({"hit_ratio": 0.79}, "optimum"),
        ({"ours_rows_s": 1_100_000}, "bare pipe"),
    ]:
        verdicts = checks([good[0], result(10_000_000, 1_000_000, **changed)])
        assert [part in name for name, met, _ in verdicts if not met] == [True], changed


def test_the_table_fits_a_terminal() -> None:
    narrow = Console(width=80)
    with narrow.capture() as shown:
        narrow.print(results_table([result(100_000_000, 1_000_000)]))
    assert "0.500 s" in shown.get()
    assert "…" not in shown.get()


def test_counts_read_well() -> None:
    assert [short_count(n) for n in (100_000, 1_000_000, 100_000_000)] == ["100 k", "1 M", "100 M"]
