"""The cloud reports of NDP-026B: the layout against a record written by hand, the reader, the generator."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.errors import ConfigError, CorruptionError
from semistream.workloads.cloud import ROW_SCHEMA, CloudReports, PaddedReports, ReportConfig
from semistream.workloads.cloud_format import (
    FIELDS,
    RECORD_CHARACTERS,
    REPORT_SCHEMA,
    ReportFiles,
    format_reports,
    parse_reports,
)


def record(**changes: str) -> str:
    """A sound report by the widths of the documentation, with some fields replaced."""
    text = {
        "YR": "85", "MN": "12", "DY": " 3", "HR": " 6", "IB": "1", "LAT": "-3755", "LON": " 1752",
        "ID": "03953", "LO": "1", "WW": "61", "N": "8", "NH": " 5", "H": " 4", "CL": "11", "CM": "-1",
        "CH": "-1", "AM": "900", "AH": " 25", "UM": "9", "UH": "0", "IC": " 0", "SA": "-123", "RI": "  17",
    } | changes  # fmt: skip
    return "".join(text.values())


EXPECTED = {
    "YR": 85, "MN": 12, "DY": 3, "HR": 6, "IB": 1, "LAT": -3755, "LON": 1752, "ID": 3953, "LO": 1, "WW": 61,
    "N": 8, "NH": 5, "H": 4, "CL": 11, "CM": None, "CH": None, "AM": None, "AH": 25, "UM": None, "UH": 0,
    "IC": 0, "SA": -123, "RI": 17,
}  # fmt: skip


def test_the_fields_fill_the_record() -> None:
    end = 0
    for field in FIELDS:
        assert field.start == end
        end += field.width
    assert end == RECORD_CHARACTERS == len(record())


# Where a published reader of the files of NDP-026B cuts a line; see the docstring of `cloud_format`.
PUBLISHED_CUTS = {
    "YR": (0, 2), "MN": (2, 4), "DY": (4, 6), "HR": (6, 8), "IB": (8, 9), "LAT": (9, 14), "LON": (14, 19),
    "ID": (19, 24), "LO": (24, 25), "WW": (25, 27), "N": (27, 28), "NH": (28, 30), "H": (30, 32), "CL": (32, 34),
    "CM": (34, 36), "CH": (36, 38), "AM": (38, 41), "AH": (41, 44), "UM": (44, 45), "UH": (45, 46), "IC": (46, 48),
    "SA": (48, 52), "RI": (52, 56),
}  # fmt: skip


def test_the_fields_are_where_a_reader_of_the_real_files_cuts_them() -> None:
    assert {field.name: (field.start, field.start + field.width) for field in FIELDS} == PUBLISHED_CUTS


def test_a_report_is_read_by_its_positions() -> None:
    assert parse_reports(record().encode()).to_pylist() == [EXPECTED]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends(end: str, last: bool) -> None:
    text = end.join([record(), record(RI="-110")]) + (end if last else "")
    assert parse_reports(text.encode())["RI"].to_pylist() == [17, -110]


def test_numbers_may_be_padded_with_zeros() -> None:
    assert parse_reports(record(MN="04", LAT="00012", SA="0007").encode())["LAT"].to_pylist() == [12]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"LON": "36001"}, ["LON (characters 15-19", "is not in 0 .. 36000: '36001'"]),
        ({"LON": "   -1"}, ["LON", "is not in"]),
        ({"MN": "13"}, ["MN", "is not in 1 .. 12"]),
        ({"CL": "12"}, ["CL", "0 .. 11 or -1 (missing)"]),
        ({"AM": "801"}, ["AM", "0 .. 800 or 900 (missing)"]),
        ({"LAT": "     "}, ["LAT", "is no number", "'     '"]),
        ({"LAT": "12 34"}, ["LAT", "is no number"]),
        ({"LAT": "1-234"}, ["LAT", "is no number"]),
        ({"LAT": "   --"}, ["LAT", "is no number"]),
        ({"LAT": "    -"}, ["LAT", "is no number"]),
        ({"N": "/"}, ["N ", "is no number", "'/'"]),
        ({"ID": "12.45"}, ["ID", "is no number"]),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(
    tmp_path: Path, changes: dict[str, str], parts: list[str]
) -> None:
    path = tmp_path / "DEC85L"
    lines = [record()] * 40_000
    lines[39_000] = record(**changes)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(CorruptionError) as found:
        list(ReportFiles([path]).batches(10_000))
    assert f"{path}, line 39001: " in found.value.message
    for part in parts:
        assert part in found.value.message
    assert found.value.hint


@pytest.mark.parametrize(
    ("text", "line", "length"),
    [
        (record() + "\n" + record()[:-1] + "\n", 2, 55),
        (record() + "0" * 24 + "\n", 1, 80),
        (record() + "\n\n", 2, 0),
        (record() + "\n" + record()[:20], 2, 20),
        (record() * 3000, 1, 168_000),
    ],
)
def test_lines_of_another_length_are_told(tmp_path: Path, text: str, line: int, length: int) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(
        CorruptionError, match=f"line {line}: a report has 56 characters, this line has {length}"
    ):
        list(ReportFiles([path]).batches(100))


def test_files_that_are_packed(tmp_path: Path) -> None:
    text = "\n".join([record()] * 100).encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(text))
    assert sum(batch.num_rows for batch in ReportFiles([tmp_path / "a.gz"]).batches(7)) == 100
    (tmp_path / "a.Z").write_bytes(b"\x1f\x9d\x90")
    (tmp_path / "b.gz").write_bytes(gzip.compress(text)[:-20])
    with pytest.raises(CorruptionError, match=r"b.gz cannot be unpacked after line 0"):
        list(ReportFiles([tmp_path / "b.gz"]).batches(7))
    with pytest.raises(CorruptionError, match="compress") as found:
        list(ReportFiles([tmp_path / "a.Z"]).batches(7))
    assert "gzip" in found.value.hint


def test_paths_are_checked_before_reading(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a file"):
        ReportFiles([tmp_path / "none"])
    with pytest.raises(ConfigError, match="no files"):
        ReportFiles([])


def made_up(**options: object) -> CloudReports:
    return CloudReports(ReportConfig(**({"side": "table"} | options)))  # type: ignore[arg-type]


def test_what_is_generated_can_be_written_and_read_back(tmp_path: Path) -> None:
    for number, side in enumerate(("table", "stream")):
        reports = made_up(side=side, seed=number).read(1_195_000, 40_000)
        path = tmp_path / side
        path.write_bytes(format_reports(reports))
        assert path.stat().st_size == 40_000 * 57
        found = pa.Table.from_batches(ReportFiles([path]).batches(9_999)).combine_chunks()
        assert found.equals(pa.Table.from_batches([reports]).select(REPORT_SCHEMA.names).combine_chunks())


def test_several_files_are_one_source_and_reading_may_start_anywhere(tmp_path: Path) -> None:
    reports = made_up().read(0, 1000)
    for part in range(4):
        (tmp_path / str(part)).write_bytes(format_reports(reports.slice(part * 250, 250)))
    source = PaddedReports(reports=ReportFiles([tmp_path / str(part) for part in range(4)]))
    whole = pa.Table.from_batches(source.batches(1000)).combine_chunks()
    assert whole.schema == ROW_SCHEMA
    assert whole.num_rows == 1000
    assert [batch.num_rows for batch in source.batches(300)] == [300, 300, 300, 100]
    later = pa.Table.from_batches(source.batches(123, first=456)).combine_chunks()
    assert later.equals(whole.slice(456).combine_chunks())


def test_rows_have_128_bytes_and_the_longitudes_of_the_paper() -> None:
    table = pa.Table.from_batches([made_up().read(0, 100_000)])
    table.validate(full=True)
    characters = pc.binary_length(table["payload"])
    assert set((pc.add(characters, 4 * 23)).to_pylist()) == {128}
    longitudes = table["LON"].to_numpy()
    assert longitudes.min() >= 0
    assert longitudes.max() <= 36_000
    # Many-to-many: several thousand longitudes, each with many rows; Europe has more than its share.
    assert 5_000 < np.unique(longitudes).size < 36_001
    assert np.mean(longitudes < 4_000) > 0.2


def test_reports_keep_to_the_rules() -> None:
    columns = {name: made_up(seed=2).read(0, 50_000).column(name) for name in REPORT_SCHEMA.names}
    rows = {name: column.fill_null(-1).to_numpy() for name, column in columns.items()}
    clear = rows["N"] == 0
    for name in ("NH", "CL", "CM", "CH", "AM", "AH", "UM", "UH"):
        assert not rows[name][clear].any()
    assert (rows["NH"] <= rows["N"]).all()
    for kind, amount, visible in (("CM", "AM", "UM"), ("CH", "AH", "UH")):
        assert np.array_equal(rows[kind] < 0, rows[amount] < 0)
        assert np.array_equal(rows[amount] < 0, rows[visible] < 0)
        assert (rows[amount] <= 100 * rows["N"]).all()
    assert np.array_equal(rows["IB"] == 1, (rows["SA"] >= -90) | (rows["RI"] > 11))
    assert np.mean(rows["IC"] == 0) == pytest.approx(0.88, abs=0.01)
    assert set(np.unique(rows["LO"]).tolist()) == {1, 2}


def test_the_sides_are_months_apart_and_share_their_stations() -> None:
    table = made_up(stations=100).read(1_190_000, 20_000).to_struct_array()
    stream = made_up(side="stream", stations=100).read(0, 20_000)
    assert set(pc.unique(pc.struct_field(table, "MN")).to_pylist()) == {4, 8}
    assert pc.unique(stream["MN"]).to_pylist() == [12]
    land = [
        set(pc.unique(pc.filter(ids, pc.equal(lo, 1))).to_pylist())
        for ids, lo in (
            (pc.struct_field(table, "ID"), pc.struct_field(table, "LO")),
            (stream["ID"], stream["LO"]),
        )
    ]
    assert land[1] <= land[0]


def test_the_sun_is_up_at_noon() -> None:
    reports = made_up(side="stream").read(0, 100_000)
    south = pc.and_(pc.less(reports["LAT"], -2_000), pc.greater(reports["LAT"], -3_000))
    local_hour = (reports["LON"].to_numpy() / 1_500 + reports["HR"].to_numpy()) % 24
    noon, altitude = np.abs(local_hour - 12) < 1, reports["SA"].to_numpy()
    assert altitude[noon & south.to_numpy(zero_copy_only=False)].min() > 600
    assert altitude[np.abs(local_hour - 12) > 11.5].max() < 400


@given(first=st.integers(0, 2**40), rows=st.integers(1, 50), seed=st.integers(0, 2**40))
def test_any_cut_gives_the_same_reports(first: int, rows: int, seed: int) -> None:
    one, other = (
        made_up(side="stream", stations=10, seed=seed),
        made_up(side="stream", stations=10, seed=seed),
    )
    pieces = pa.Table.from_batches([one.read(first, rows), one.read(first + rows, 3)]).combine_chunks()
    assert pieces.equals(pa.Table.from_batches([other.read(first, rows + 3)]))


def test_a_value_that_does_not_fit_its_field_is_not_written() -> None:
    reports = made_up().read(0, 3)
    column = REPORT_SCHEMA.get_field_index("LON")
    for values in ([0, 0, 100_000], [0, 0, -36_000]):
        wrong = reports.set_column(column, "LON", pa.array(values, pa.int32()))
        with pytest.raises(ConfigError, match=r"LON=.* in row 2 does not fit 5 characters"):
            format_reports(wrong)
    with pytest.raises(ConfigError, match="LON is null"):
        format_reports(reports.set_column(column, "LON", pa.array([1, None, 2], pa.int32())))


@pytest.mark.parametrize(
    "bad", [{"rows": 0}, {"stations": 0}, {"row_bytes": 91}, {"exponent": -1.0}, {"seed": -1}]
)
def test_bad_reports_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigError) as refused:
        made_up(**bad)
    assert refused.value.hint
