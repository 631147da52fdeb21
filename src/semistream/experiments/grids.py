"""The three sizes of a figure from the paper's own setting: the same shape, with smaller tables and fewer places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from semistream.experiments.figure import SIZES, SizeName, Sweep
from semistream.experiments.lengths import Patience
from semistream.experiments.scenario import Scenario

PATIENCE: dict[SizeName, Patience] = {
    "full": Patience(),
    "quick": Patience(seen=20.0, fills=2.0, exchanges=1.0, cycles=9, cycle_intervals=3),
    "tiny": Patience(
        seen=3.0,
        fills=1.25,
        exchanges=0.3,
        rows_min=1_000,
        cycles=3,
        cycle_intervals=2,
        steps_max=500,
        seconds=1.0,
        intervals=2,
    ),
}
SCALES: dict[SizeName, int] = {"full": 1, "quick": 100, "tiny": 2_000}
_COUNTED = ("table_rows", "memory_fixed_bytes", "interval_rows")  # what a smaller table makes smaller
_NOTES = {1: "", 100: "Table and memory are a hundredth of the paper's."}


def sizes(
    base: Scenario,
    field: str,
    values: Sequence[float],
    *,
    quick: Sequence[float] | None = None,
    tiny: Sequence[float],
    to_x: float = 1.0,
    scales: Mapping[SizeName, int] = SCALES,
    patience: Mapping[SizeName, Patience] = PATIENCE,
    tiny_with: Mapping[str, Any] | None = None,
) -> dict[SizeName, Sweep]:
    """`base` and `values` are the paper's. The horizontal axis keeps the paper's unit at every size.

    tiny_with: fields of the tiny scenario that are not the paper's, where a share of so small a table is too little.
    """
    chosen = {"full": values, "quick": quick or values, "tiny": tiny}
    bases = {"full": base, "quick": base, "tiny": replace(base, **(tiny_with or {}))}
    return {
        size: _sweep(bases[size], field, chosen[size], to_x, scales[size], patience[size]) for size in SIZES
    }


def _sweep(
    base: Scenario, field: str, values: Sequence[float], to_x: float, scale: int, patience: Patience
) -> Sweep:
    counted: dict[str, Any] = {name: _scaled(getattr(base, name), scale) for name in _COUNTED}
    is_counted = field in _COUNTED
    return Sweep(
        base=replace(base, **counted),
        field=field,
        values=tuple(float(_scaled(value, scale)) if is_counted else value for value in values),
        to_x=to_x * scale if is_counted else to_x,
        patience=patience,
        note=_NOTES.get(scale, f"Table and memory are 1/{scale:,} of the paper's."),
    )


def _scaled(value: float, scale: int) -> int:
    """Nothing stays nothing."""
    return max(1, round(value / scale)) if value else 0
