"""The workloads by name: what `semistream generate` and the experiments choose from.

A kind is a config, whose fields are its options, and a function that makes the workload of a config. To
add one, write both and a line in KINDS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from semistream.errors import ConfigError
from semistream.workloads.arrivals import Arrivals, PoissonArrivals, SteadyArrivals
from semistream.workloads.bursts import BurstyArrivals
from semistream.workloads.cloud import KEY as CLOUD_KEY
from semistream.workloads.cloud import CloudReports, PaddedReports, ReportConfig
from semistream.workloads.cloud_format import ReportFiles
from semistream.workloads.contracts import KeySource, RowSource, Workload
from semistream.workloads.drift import DriftConfig, DriftKeys
from semistream.workloads.locality import LocalityConfig, LocalityKeys
from semistream.workloads.many_to_many import KEY_STRIDE, AbsentKeys
from semistream.workloads.synthetic import (
    KEY,
    MasterConfig,
    MasterRows,
    StreamRows,
    check_choice,
)
from semistream.workloads.tpch import CUSTOMER_KEY, ORDER_KEY, TpchSource
from semistream.workloads.zipf import ZipfConfig, ZipfKeys


def _option(default: Any, text: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class ZipfOptions:
    keys: int = _option(1_000_000, "join values to choose from; rows of the table = keys x rows-per-key")
    skew: float = _option(1.0, "Zipf exponent of the stream, 0 = uniform")
    clustered: bool = _option(False, "make frequent keys neighbours instead of spreading them over all keys")
    rows_per_key: int = _option(1, "table rows with the same key")
    row_bytes: int = _option(120, "bytes of a table row's values")
    stream_row_bytes: int = _option(20, "bytes of a stream row's values")
    order: str = _option("sorted", "order of the table's rows", ("sorted", "shuffled"))
    seed: int = _option(0, "another seed makes other rows")

    def zipf(self) -> ZipfConfig:
        return ZipfConfig(keys=self.keys, exponent=self.skew, seed=self.seed, scattered=not self.clustered)

    def workload(self, keys: KeySource, *, repetition: Any = "exact", key_stride: int = 1) -> Workload:
        order: Any = self.order  # checked by MasterConfig
        master = MasterConfig(
            keys=self.keys,
            rows_per_key=self.rows_per_key,
            row_bytes=self.row_bytes,
            repetition=repetition,
            order=order,
            key_stride=key_stride,
            seed=self.seed,
        )
        stream = StreamRows(keys=keys, row_bytes=self.stream_row_bytes, seed=self.seed)
        return Workload(stream=stream.source, table=MasterRows(master).source, stream_key=KEY, table_key=KEY)


@dataclass(frozen=True, kw_only=True)
class LocalityOptions(ZipfOptions):
    intervals: int = _option(25, "parts of the keys, one after the other")
    interval_rows: int = _option(2_000_000, "stream rows that fall into one part")


@dataclass(frozen=True, kw_only=True)
class DriftOptions(ZipfOptions):
    period: int = _option(1_000_000, "stream rows in which the hot set moves by --moved keys")
    moved: int | None = _option(None, "keys that are replaced in a period (default: a hundredth of all)")
    pace: str = _option("gradual", "move evenly, or at once at a period's end", ("gradual", "sudden"))


@dataclass(frozen=True, kw_only=True)
class ManyToManyOptions(ZipfOptions):
    rows_per_key: int = _option(4, "table rows with the same key; the mean with random repetition")
    repetition: str = _option(
        "exact", "as many rows for each key, or keys at random (paper 003)", ("exact", "random")
    )
    absent: float = _option(0.0, "share of stream rows whose key the table lacks; needs exact repetition")


@dataclass(frozen=True, kw_only=True)
class TpchOptions:
    scale: float = _option(1.0, "scale factor; 1 is 150,000 customers and 1.5 million orders")
    skew: float | None = _option(None, "Zipf exponent of the orders' customers (default: as TPC-H has them)")
    seed: int = _option(0, "of the skewed customers; TPC-H's own data has no seed")


@dataclass(frozen=True, kw_only=True)
class CloudOptions:
    table_rows: int = _option(1_000_000, "reports in the table")
    stations: int = _option(10_000, "land stations that report")
    skew: float = _option(0.0, "Zipf exponent of how often stations report")
    row_bytes: int = _option(128, "bytes of a row's values, on both sides")
    seed: int = _option(0, "another seed makes other rows")
    table_files: tuple[str, ...] = _option((), "real files of NDP-026B to make the table of")
    stream_files: tuple[str, ...] = _option((), "real files of NDP-026B to make the stream of")


def _zipf(options: ZipfOptions) -> Workload:
    return options.workload(ZipfKeys(options.zipf()))


def _locality(options: LocalityOptions) -> Workload:
    config = LocalityConfig(
        zipf=options.zipf(), intervals=options.intervals, interval_rows=options.interval_rows
    )
    return options.workload(LocalityKeys(config))


def _drift(options: DriftOptions) -> Workload:
    pace: Any = options.pace
    config = DriftConfig(zipf=options.zipf(), period=options.period, moved=options.moved, pace=pace)
    return options.workload(DriftKeys(config))


def _many_to_many(options: ManyToManyOptions) -> Workload:
    present = ZipfKeys(options.zipf())
    if options.repetition == "exact":
        keys = AbsentKeys(present=present, share=options.absent, seed=options.seed)
        return options.workload(keys, key_stride=KEY_STRIDE)
    if options.absent:
        raise ConfigError(
            f"absent={options.absent} cannot be kept with random repetition, which decides itself what is absent",
            hint="with m rows per key, a share of exp(-m) of all keys is absent; or use repetition=exact",
        )
    return options.workload(present, repetition=options.repetition)


def _tpch(options: TpchOptions) -> Workload:
    customers = TpchSource(table="customer", scale=options.scale)
    orders = TpchSource(table="orders", scale=options.scale, exponent=options.skew, seed=options.seed)
    return Workload(stream=orders, table=customers, stream_key=ORDER_KEY, table_key=CUSTOMER_KEY)


def _cloud(options: CloudOptions) -> Workload:
    def side(files: tuple[str, ...], config: ReportConfig) -> RowSource:
        if files:
            return PaddedReports(reports=ReportFiles(files), row_bytes=options.row_bytes, seed=options.seed)
        return CloudReports(config).source

    common: dict[str, Any] = {
        "stations": options.stations,
        "exponent": options.skew,
        "row_bytes": options.row_bytes,
        "seed": options.seed,
    }
    return Workload(
        stream=side(options.stream_files, ReportConfig(side="stream", **common)),
        table=side(options.table_files, ReportConfig(side="table", rows=options.table_rows, **common)),
        stream_key=CLOUD_KEY,
        table_key=CLOUD_KEY,
    )


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One sort of workload: `build` makes it of an instance of `options`.

    `arrivals` names the schedule that belongs to it; most are about keys alone.
    """

    name: str
    summary: str
    options: type[Any]
    build: Callable[[Any], Workload]
    arrivals: str | None = None


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="zipf", summary="keys by Zipf's law", options=ZipfOptions, build=_zipf),
        Kind(
            name="bursty",
            summary="keys by Zipf's law that arrive in bursts, similar on all time scales (001 Fig 7)",
            options=ZipfOptions,
            build=_zipf,
            arrivals="bursty",
        ),
        Kind(
            name="locality",
            summary="intervals, each within its own part of the keys (000 Fig 5g)",
            options=LocalityOptions,
            build=_locality,
        ),
        Kind(name="drift", summary="a hot set that moves", options=DriftOptions, build=_drift),
        Kind(
            name="many-to-many",
            summary="several table rows per key, and keys that the table lacks (003)",
            options=ManyToManyOptions,
            build=_many_to_many,
        ),
        Kind(name="tpch", summary="TPC-H's customers and their orders", options=TpchOptions, build=_tpch),
        Kind(
            name="cloud",
            summary="weather reports by longitude, made up or from the files of NDP-026B",
            options=CloudOptions,
            build=_cloud,
        ),
    )
}


def make(kind: str, **options: Any) -> Workload:
    """The workload of a kind, with the options of its config: make("zipf", keys=10_000_000, skew=0.8).

    Guarantee: the rows depend on the kind and its options alone. ConfigError for what is unknown or cannot be.
    """
    found = KINDS.get(kind)
    if found is None:
        raise ConfigError(f"there is no workload {kind!r}", hint=f"choose one of {', '.join(KINDS)}")
    known = [each.name for each in fields(found.options)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ConfigError(
            f"the workload {kind!r} has no option {', '.join(unknown)}", hint=f"it has {', '.join(known)}"
        )
    return found.build(found.options(**options))


ARRIVALS = ("steady", "poisson", "bursty")


def make_arrivals(
    kind: str, *, rows_per_s: float, step_s: float = 1.0, streams: int = 12, seed: int = 0
) -> Arrivals:
    """The schedule of a name in ARRIVALS, with the wanted mean; `streams` is for bursts alone."""
    check_choice("arrivals", kind, ARRIVALS)
    rows_per_step = rows_per_s * step_s
    if kind == "steady":
        return SteadyArrivals(rows_per_step=rows_per_step)
    if kind == "poisson":
        return PoissonArrivals(rows_per_step=rows_per_step, seed=seed)
    return BurstyArrivals(streams=streams, mean_rows_per_step=rows_per_step, seed=seed)
