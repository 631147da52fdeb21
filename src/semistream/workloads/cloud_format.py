"""The 56-character edited cloud report of NDP-026B, read and written.

C. J. Hahn, S. G. Warren, J. London: Edited Synoptic Cloud Reports from Ships and Land Stations Over the
Globe, 1982-1991. ORNL/CDIAC-77, NDP-026B, 1996. One ASCII file per month and for land or ocean.

Where the layout comes from. The table of NDP-026B itself was not at hand. Its successor NDP-026C (Hahn and
Warren, 1999) describes in table 9 of its readme (cdiac.ess-dive.lbl.gov/ftp/ndp026c/ndp026c_readme.txt) an 80-character
report whose first twenty items, above a dividing line, take exactly 56 characters: names, widths, ranges and codes
for missing values below are from there. Three things agree with it. The documents of NDP-026B that were at hand
(glossary: a 56-character report, IB, the extended codes CL=10,11 and CM=10,11,12; table 4: change codes 0..9, -1 for
missing). A published program that was run on the files of NDP-026B, land and ocean (github.com/rashhub/
AtmosphericCloudAnalysis, src/PreProcessing/CloudDataLoader.java, commit f21b662): it cuts all 23 fields where `FIELDS`
does, from characters 1-2, the year, to 53-56, RI; and it trims blanks around numbers. A published reader of the longer
records, which cuts the twenty items at the same places.

Not checked, for want of the real files: whether some numbers are padded with zeros (blanks and zeros are read; blanks are
written), and whether all values of NDP-026B keep to the ranges of NDP-026C.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from semistream.core.arrow import pack_bits
from semistream.errors import ConfigError, CorruptionError
from semistream.workloads._cloud_kernels import NOT_A_NUMBER, format_field, parse_field
from semistream.workloads._row_kernels import Bytes
from semistream.workloads.contracts import Cutter, checked_start

RECORD_CHARACTERS = 56
_READ_RECORDS = 32_768
_NO_CODE = 1 << 20


@dataclass(frozen=True)
class Field:
    """An item of the report: characters start .. start+width-1, counted from 0, and what they may say."""

    name: str
    start: int
    width: int
    low: int
    high: int
    missing: int | None
    meaning: str


FIELDS = (
    Field("YR", 0, 2, 0, 99, None, "year, without century"),
    Field("MN", 2, 2, 1, 12, None, "month"),
    Field("DY", 4, 2, 1, 31, None, "day"),
    Field("HR", 6, 2, 0, 23, None, "hour, GMT; reports are made every three hours"),
    Field("IB", 8, 1, 0, 1, None, "sky brightness: 1 if there was light enough to see the clouds"),
    Field("LAT", 9, 5, -9000, 9000, None, "latitude in hundredths of a degree"),
    Field("LON", 14, 5, 0, 36000, None, "longitude east in hundredths of a degree"),
    Field("ID", 19, 5, 0, 99999, None, "land: station number; ship: source deck and ship type"),
    Field("LO", 24, 1, 1, 2, None, "1 land, 2 ocean"),
    Field("WW", 25, 2, 0, 99, -1, "present weather (ww)"),
    Field("N", 27, 1, 0, 8, None, "total cloud cover in oktas"),
    Field("NH", 28, 2, 0, 8, -1, "lower cloud amount in oktas (Nh)"),
    Field("H", 30, 2, 0, 9, -1, "lower cloud base height, a code (h)"),
    Field("CL", 32, 2, 0, 11, -1, "low cloud type"),
    Field("CM", 34, 2, 0, 12, -1, "middle cloud type"),
    Field("CH", 36, 2, 0, 9, -1, "high cloud type"),
    Field("AM", 38, 3, 0, 800, 900, "middle cloud amount in hundredths of an okta"),
    Field("AH", 41, 3, 0, 800, 900, "high cloud amount in hundredths of an okta"),
    Field("UM", 44, 1, 0, 8, 9, "middle cloud amount that is visible, in oktas"),
    Field("UH", 45, 1, 0, 8, 9, "high cloud amount that is visible, in oktas"),
    Field("IC", 46, 2, 0, 9, None, "which change was made to the original report"),
    Field("SA", 48, 4, -900, 900, None, "solar altitude in tenths of a degree"),
    Field("RI", 52, 4, -110, 117, None, "relative lunar illuminance in hundredths"),
)
REPORT_SCHEMA = pa.schema(
    [
        pa.field(f.name, pa.int32(), nullable=f.missing is not None, metadata={"meaning": f.meaning})
        for f in FIELDS
    ]
)


@dataclass(frozen=True)
class ReportFiles:
    """A `RowSource` of the reports in real files, one after the other, plain or gzip-compressed.

    Every character is checked: a report that breaks the layout or a range is a CorruptionError that names
    file and line. Missing values become nulls. At most 32,768 reports are in memory besides a batch.
    """

    paths: Sequence[str | Path]

    def __post_init__(self) -> None:
        if not self.paths:
            raise ConfigError("no files of cloud reports were named", hint="name at least one")
        for path in self.paths:
            if not Path(path).is_file():
                raise ConfigError(f"{path} is not a file", hint="name files of NDP-026B, such as DEC85L")

    @property
    def schema(self) -> pa.Schema:
        return REPORT_SCHEMA

    @property
    def rows(self) -> None:
        return None

    def batches(self, rows: int, *, first: int = 0) -> Iterator[pa.RecordBatch]:
        checked_start(rows, first)
        reports = (batch for path in self.paths for batch in _read_file(Path(path)))
        cutter = Cutter(reports, REPORT_SCHEMA)
        cutter.skip(first)
        yield from cutter.all(rows)


def parse_reports(text: bytes, *, name: str = "<bytes>", first_line: int = 1) -> pa.RecordBatch:
    """The reports in `text`, whole lines of 56 characters; the last one may lack its line end."""
    records = _as_records(text, name, first_line)
    count = records.shape[0]
    columns = []
    for field in FIELDS:
        values, valid = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.bool_)
        missing = _NO_CODE if field.missing is None else field.missing
        at, fault = parse_field(
            records, field.start, field.width, field.low, field.high, missing, values, valid
        )
        if at >= 0:
            raise _fault(field, fault, records[at], f"{name}, line {first_line + at}")
        bitmap = None if valid.all() else pack_bits(valid)
        columns.append(pa.Array.from_buffers(pa.int32(), count, [bitmap, pa.py_buffer(values)]))
    return pa.RecordBatch.from_arrays(columns, schema=REPORT_SCHEMA)


def format_reports(batch: pa.RecordBatch) -> bytes:
    """The lines of a batch with the columns of REPORT_SCHEMA, and perhaps others, in the files' format."""
    records = np.full((batch.num_rows, RECORD_CHARACTERS + 1), ord("\n"), dtype=np.uint8)
    for field in FIELDS:
        column = batch.column(field.name).cast(pa.int64())
        if field.missing is not None:
            column = column.fill_null(field.missing)
        if column.null_count:
            raise ConfigError(f"{field.name} is null, but has no code for that", hint="fill it first")
        at = format_field(column.to_numpy(), field.start, field.width, records)
        if at >= 0:
            raise ConfigError(
                f"{field.name}={column[at]} in row {at} does not fit {field.width} characters",
                hint=f"it lies between {field.low} and {field.high}",
            )
    return records.tobytes()


def _read_file(path: Path) -> Iterator[pa.RecordBatch]:
    with _open(path) as file:
        line, rest = 1, b""
        while block := _read(file, path, line):
            text, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                batch = parse_reports(text + newline, name=str(path), first_line=line)
                line += batch.num_rows
                yield batch
            elif len(rest) > RECORD_CHARACTERS + 1:
                break  # not a text of lines: what follows need not be read to say so
        if rest:
            yield parse_reports(rest, name=str(path), first_line=line)


def _read(file: IO[bytes], path: Path, line: int) -> bytes:
    try:
        return file.read(_READ_RECORDS * (RECORD_CHARACTERS + 1))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorruptionError(
            f"{path} cannot be unpacked after line {line - 1}: {error}", hint="fetch the file again"
        ) from error


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        magic = file.read(2)
    if magic == b"\x1f\x9d":
        raise CorruptionError(
            f"{path} was packed with Unix compress", hint=f"run: gzip --decompress {path.name}"
        )
    if magic == b"\x1f\x8b":
        return gzip.open(path)  # type: ignore[return-value]
    return path.open("rb")


def _as_records(text: bytes, name: str, first_line: int) -> Bytes:
    """The text as one row of characters per line, if all lines are as long as they must be."""
    text = text.replace(b"\r\n", b"\n")
    if text and not text.endswith(b"\n"):
        text += b"\n"
    characters, stride = np.frombuffer(text, dtype=np.uint8), RECORD_CHARACTERS + 1
    ends = np.flatnonzero(characters == ord("\n"))
    if np.array_equal(ends, np.arange(1, characters.size // stride + 1) * stride - 1):
        return characters.reshape(-1, stride)
    starts = np.concatenate([[0], ends[:-1] + 1])
    wrong = int(np.flatnonzero(ends - starts != stride - 1)[0])
    raise CorruptionError(
        f"{name}, line {first_line + wrong}: a report has {RECORD_CHARACTERS} characters, this line has "
        f"{ends[wrong] - starts[wrong]}",
        hint="NDP-026C has 80 characters a report, and is another format; is this a file of NDP-026B?",
    )


def _fault(field: Field, fault: int, record: Bytes, where: str) -> CorruptionError:
    found = record[field.start : field.start + field.width].tobytes().decode("ascii", errors="replace")
    wanted = "is no number" if fault == NOT_A_NUMBER else f"is not in {field.low} .. {field.high}"
    if fault != NOT_A_NUMBER and field.missing is not None:
        wanted += f" or {field.missing} (missing)"
    return CorruptionError(
        f"{where}: {field.name} (characters {field.start + 1}-{field.start + field.width}, {field.meaning}) "
        f"{wanted}: '{found}'",
        hint="is this a file of NDP-026B, and complete?",
    )
