"""The CSV of a figure is read back as it was written, and nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from semistream.errors import SchemaError
from semistream.experiments.rows import COLUMNS, Row, read_rows, write_rows

ROW = Row(
    paper="skewed", figure="fig05a", series="cmeshjoin", device="nvme", x=10.0, measure="service rate",
    unit="rows/s", value=1234.5, plus_minus=6.25, algorithm="cmeshjoin", table_rows=1_000_000,
    memory_bytes=12_000_000, skew=1.0, task="abc",
)  # fmt: skip
COUNT = Row(
    paper="skewed", figure="fig05a", series="clairvoyant bound", device="", x=1.0, x_label="one",
    measure="share", unit="", value=0.5, source="bound",
)  # fmt: skip


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "figure.csv"
    write_rows([ROW, COUNT], path)
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    assert read_rows(path) == [ROW, COUNT]


@pytest.mark.parametrize(
    ("old", "new"),
    [("series", "line"), ("1234.5", "many"), ("measured", "guessed"), ("1000000", "1.5")],
)
def test_what_is_no_figure_is_refused(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "figure.csv"
    write_rows([ROW], path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SchemaError):
        read_rows(path)
