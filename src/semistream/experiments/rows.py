"""The CSV of every figure: one line for each number, the same columns everywhere."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from semistream.errors import SchemaError

Source = Literal["measured", "predicted", "bound", "given"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A number of a figure.

    paper, figure: as in claims.toml. series: what the legend calls it. device: "" where it plays no part.
    x, x_label: the place on the horizontal axis, in the paper's unit; x_label names it where it is a name.
    measure, unit, value, plus_minus: the number; plus_minus is half of the 95 % confidence interval, empty where
    the number is a count or a closed form, which has none.
    source: "measured" in a run, "predicted" by the cost model, "bound" by the clairvoyant, "given" by a generator.
    algorithm, table_rows, memory_bytes, skew: of the run behind it. task: the name of its result file, if any.
    """

    paper: str
    figure: str
    series: str
    device: str
    x: float
    x_label: str = ""
    measure: str
    unit: str
    value: float
    plus_minus: float | None = None
    source: Source = "measured"
    algorithm: str = ""
    table_rows: int = 0
    memory_bytes: int = 0
    skew: float = 0.0
    task: str = ""


COLUMNS = tuple(field.name for field in fields(Row))
_NUMBERS = {"x": float, "value": float, "table_rows": int, "memory_bytes": int, "skew": float}


def write_rows(rows: Sequence[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow("" if value is None else _text(value) for value in astuple(row))


def read_rows(path: Path) -> list[Row]:
    """SchemaError for what `write_rows` would not have written."""
    with path.open(newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        if tuple(header) != COLUMNS:
            raise SchemaError(
                f"{path} has the columns {', '.join(header)}.", hint=f"they should be {', '.join(COLUMNS)}."
            )
        return [_row(dict(zip(COLUMNS, line, strict=True)), path) for line in reader]


def _row(texts: dict[str, str], path: Path) -> Row:
    values: dict[str, object] = dict(texts)
    try:
        for name, kind in _NUMBERS.items():
            values[name] = kind(texts[name])
        values["plus_minus"] = float(texts["plus_minus"]) if texts["plus_minus"] else None
    except ValueError as error:
        raise SchemaError(f"{path}: {error}", hint="make the figure again.") from None
    if texts["source"] not in get_args(Source):
        raise SchemaError(
            f"{path}: source is {texts['source']!r}.", hint=f"it is one of {', '.join(get_args(Source))}."
        )
    return Row(**values)  # type: ignore[arg-type]


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
