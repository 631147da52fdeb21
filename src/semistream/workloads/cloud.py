"""Made-up cloud reports with the fields of NDP-026B, for where the real files are not at hand.

Papers 000 and 003 join reports of December (the stream) with those of April and August (the master table)
by longitude, 0..36000, in rows of 128 bytes: many rows on both sides have the same longitude.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from semistream.errors import ConfigError
from semistream.workloads._row_kernels import uniform_below
from semistream.workloads.arrivals import Float64s
from semistream.workloads.cloud_format import REPORT_SCHEMA
from semistream.workloads.contracts import KeyReader, RowFunction, RowSource, random_generator
from semistream.workloads.synthetic import characters, check_row_bytes, check_seed
from semistream.workloads.zipf import Int64s, ZipfConfig, ZipfKeys

KEY = "LON"
REPORT_BYTES = 4 * len(REPORT_SCHEMA)
ROW_SCHEMA = REPORT_SCHEMA.append(pa.field("payload", pa.string()))
STATIONS_MAX = 97_999
_SHIPS_PERCENT = 15
# The reports of one synoptic hour come one after the other. Every month has 30 days here.
_REPORTS_PER_HOUR = 5_000
_HOURS_PER_MONTH = 8 * 30
_FIRST_YEAR, _YEARS = 82, 10
# Clear and overcast skies are the most frequent ones.
_COVER = np.array([0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 7, 7, 8, 8, 8])
# Centre, spread and number (in twentieths) of land stations: most are in Europe, Asia and North America.
_CONTINENTS = (
    ((4800, 1500), (900, 1600), 8),
    ((3500, 10800), (1500, 2200), 5),
    ((4000, 26500), (1000, 1500), 4),
)

Side = Literal["stream", "table"]


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Parameters
    ----------
    side: "table" makes reports of April and August, "stream" of December; both of the same stations.
    rows: None for a stream without end; after ten years it goes on with the first.
    stations: land stations, each at a place of its own; fifteen of a hundred reports come from ships,
        which are anywhere.
    exponent: how much more some stations report than others (Zipf).
    row_bytes: 92 bytes are the 23 fields as 32-bit integers, the rest is a payload.
    """

    side: Side
    rows: int | None = None
    stations: int = 10_000
    exponent: float = 0.0
    row_bytes: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.stations <= STATIONS_MAX or (self.rows is not None and self.rows < 1):
            raise ConfigError(
                f"cloud reports need at least one row and 1 to {STATIONS_MAX} stations, "
                f"got rows={self.rows}, stations={self.stations}",
                hint="the real archive has about 10,000 stations",
            )
        check_row_bytes("row_bytes", self.row_bytes, REPORT_BYTES)
        check_seed(self.seed)


class CloudReports:
    """Reports that keep to the rules of the format: ranges, which fields can be missing, and what follows
    from what (no cloud types under a clear sky, no visible amount without an amount, light by sun or moon).

    The sun's altitude is that of place, day and hour; all else is chance, and not fitted to real weather.
    """

    def __init__(self, config: ReportConfig) -> None:
        self.config = config
        self._latitudes, self._longitudes = _places(config.stations, config.seed)
        zipf = ZipfConfig(keys=config.stations, exponent=config.exponent, seed=self._seed(0))
        self._stations = KeyReader(ZipfKeys(zipf))

    @property
    def source(self) -> RowFunction:
        return RowFunction(schema=ROW_SCHEMA, rows=self.config.rows, read=self.read)

    def read(self, first: int, rows: int) -> pa.RecordBatch:
        numbers = np.arange(first, first + rows, dtype=np.int64)
        when, where = self._when(numbers), self._where(numbers, first)
        sound = when | where | self._light(numbers, when, where)
        arrays = {name: pa.array(values.astype(np.int32)) for name, values in sound.items()}
        for name, values in self._clouds(numbers).items():
            arrays[name] = pa.array(values.astype(np.int32), mask=values < 0)
        payload = characters(numbers, self.config.row_bytes - REPORT_BYTES, seed=self._seed(1))
        columns = [*(arrays[name] for name in REPORT_SCHEMA.names), payload]
        return pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA)

    def _when(self, numbers: Int64s) -> dict[str, Int64s]:
        months, hours = np.divmod(numbers // _REPORTS_PER_HOUR, _HOURS_PER_MONTH)
        days, hours = np.divmod(hours, 8)
        years, month = months, np.full(numbers.size, 12, dtype=np.int64)
        if self.config.side == "table":
            years, month = months // 2, 4 + 4 * (months % 2)
        return {"YR": _FIRST_YEAR + years % _YEARS, "MN": month, "DY": days + 1, "HR": 3 * hours}

    def _where(self, numbers: Int64s, first: int) -> dict[str, Int64s]:
        station = self._stations.read(first, numbers.size)
        at_sea = self._below(numbers, 100, 2) < _SHIPS_PERCENT
        station_id = 1_000 + station * (98_999 - 1_000) // self.config.stations
        return {
            "LAT": np.where(at_sea, self._below(numbers, 14_001, 3) - 7_000, self._latitudes[station]),
            "LON": np.where(at_sea, self._below(numbers, 36_001, 4), self._longitudes[station]),
            "ID": np.where(at_sea, 1_100 + self._below(numbers, 8_900, 5), station_id),
            "LO": np.where(at_sea, 2, 1),
        }

    def _light(self, numbers: Int64s, when: dict[str, Int64s], where: dict[str, Int64s]) -> dict[str, Int64s]:
        day_of_year = (when["MN"] - 1) * 30.4 + when["DY"]
        declination = -np.radians(23.44) * np.cos(2 * np.pi * (day_of_year + 10) / 365.25)
        latitude = np.radians(where["LAT"] / 100)
        hour_angle = np.radians(where["LON"] / 100 + 15.0 * when["HR"] - 180.0)
        sine = _sine_of_altitude(latitude, declination, hour_angle)
        altitude = np.rint(10 * np.degrees(np.arcsin(np.clip(sine, -1, 1)))).astype(np.int64)
        moon = self._below(numbers, 228, 6) - 110
        # Clouds are seen if the sun is less than 9 degrees below the horizon, or the moon bright enough.
        return {"SA": altitude, "RI": moon, "IB": ((altitude >= -90) | (moon > 11)).astype(np.int64)}

    def _clouds(self, numbers: Int64s) -> dict[str, Int64s]:
        """-1 stands for a missing value."""
        cover = _COVER[self._below(numbers, 16, 7)]
        clear = cover == 0
        lower = _up_to(cover, self._below(numbers, 1 << 20, 8))
        lower = np.where(~clear & (self._below(numbers, 8, 9) == 0), -1, lower)
        low = np.where(lower > 0, self._below(numbers, 12, 10), lower)
        middle = np.where(self._below(numbers, 4, 11) == 0, -1, self._below(numbers, 13, 12))
        high = np.where(self._below(numbers, 3, 13) == 0, -1, self._below(numbers, 10, 14))
        middle, high = np.where(clear, 0, middle), np.where(clear, 0, high)
        middle_amount = _amount(middle, cover, self._below(numbers, 1 << 20, 15))
        high_amount = _amount(high, cover, self._below(numbers, 1 << 20, 16))
        change = self._below(numbers, 75, 17)
        return {
            "WW": np.where(self._below(numbers, 10, 18) == 0, -1, self._below(numbers, 100, 19)),
            "N": cover,
            "NH": lower,
            "H": np.where(clear, -1, self._below(numbers, 10, 20)),
            "CL": low,
            "CM": middle,
            "CH": high,
            "AM": middle_amount,
            "AH": high_amount,
            "UM": np.where(middle_amount < 0, -1, middle_amount // 100),
            "UH": np.where(high_amount < 0, -1, high_amount // 100),
            # 88 of 100 reports were not changed.
            "IC": np.where(change < 66, 0, change - 65),
        }

    def _below(self, numbers: Int64s, limit: int, what: int) -> Int64s:
        out = np.empty(numbers.size, dtype=np.int64)
        uniform_below(numbers, limit, self._seed(what), out)
        return out

    def _seed(self, what: int) -> int:
        words = [self.config.seed, 0xC10D, what, int(self.config.side == "stream")]
        return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass(frozen=True, kw_only=True)
class PaddedReports:
    """A `RowSource` of real reports, padded to `row_bytes` like the made-up ones."""

    reports: RowSource
    row_bytes: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        check_row_bytes("row_bytes", self.row_bytes, REPORT_BYTES)

    @property
    def schema(self) -> pa.Schema:
        return ROW_SCHEMA

    @property
    def rows(self) -> int | None:
        return self.reports.rows

    def batches(self, rows: int, *, first: int = 0) -> Iterator[pa.RecordBatch]:
        at = first
        for batch in self.reports.batches(rows, first=first):
            numbers = np.arange(at, at + batch.num_rows, dtype=np.int64)
            payload = characters(numbers, self.row_bytes - REPORT_BYTES, seed=self.seed)
            yield pa.RecordBatch.from_arrays([*batch.columns, payload], schema=ROW_SCHEMA)
            at += batch.num_rows


def _places(stations: int, seed: int) -> tuple[Int64s, Int64s]:
    random = random_generator(seed, 0xC10D, 0)
    latitudes = random.uniform(-6_000, 7_500, stations)
    longitudes = random.uniform(0, 36_000, stations)
    place = random.integers(0, 20, stations)
    start = 0
    for centre, spread, twentieths in _CONTINENTS:
        inside = (place >= start) & (place < start + twentieths)
        latitudes[inside] = random.normal(centre[0], spread[0], int(inside.sum()))
        longitudes[inside] = random.normal(centre[1], spread[1], int(inside.sum()))
        start += twentieths
    return np.clip(latitudes, -9_000, 9_000).astype(np.int64), (longitudes % 36_000).astype(np.int64)


def _sine_of_altitude(latitude: Float64s, declination: Float64s, hour_angle: Float64s) -> Float64s:
    upright = np.sin(latitude) * np.sin(declination)
    return upright + np.cos(latitude) * np.cos(declination) * np.cos(hour_angle)


def _up_to(limit: Int64s, chance: Int64s) -> Int64s:
    """Uniform in 0 .. limit, from a number below 2^20."""
    return (chance * (limit + 1)) >> 20


def _amount(kind: Int64s, cover: Int64s, chance: Int64s) -> Int64s:
    """Hundredths of an okta: none if the kind is 0 (no such cloud), missing if the kind is."""
    return np.where(kind > 0, _up_to(100 * cover, chance), kind)
