"""Generators of the data that tests, experiments and benchmarks run on.

Everything here is a pure function of its configuration: the same config gives the same rows on
every machine, in any order of batches, so that a measurement can be repeated from its config alone.

    from semistream import workloads

    work = workloads.make("drift", keys=10_000_000, skew=1.0, period=500_000)
    for batch in work.stream.batches(100_000): ...      # without end
    for batch in work.table.batches(100_000): ...       # 10 million rows of 120 bytes, one batch at a time

- What a workload is: `contracts`. By name: `registry` (`make`, `KINDS`). As Parquet files: `files`.
- Which keys a stream asks for: `zipf`, `drift`, `locality`, `many_to_many`.
- When its rows arrive: `arrivals`, `bursts`.
- Rows: `synthetic` (any size), `tpch`, `cloud` and `cloud_format` (NDP-026B); `tables` is the benchmark's
  own pair of a customer table and its orders.
"""

from semistream.workloads.arrivals import (
    Arrival,
    Arrivals,
    PoissonArrivals,
    SteadyArrivals,
    arrival_times,
    arriving,
    with_arrivals,
)
from semistream.workloads.bursts import BurstyArrivals
from semistream.workloads.cloud import CloudReports, PaddedReports, ReportConfig
from semistream.workloads.cloud_format import REPORT_SCHEMA, ReportFiles, format_reports, parse_reports
from semistream.workloads.contracts import KeyReader, KeySource, RowFunction, RowSource, Workload
from semistream.workloads.drift import DriftConfig, DriftKeys
from semistream.workloads.files import Output, Written, read_note, write_workload
from semistream.workloads.locality import LocalityConfig, LocalityKeys
from semistream.workloads.many_to_many import AbsentKeys
from semistream.workloads.registry import KINDS, Kind, make, make_arrivals
from semistream.workloads.synthetic import MasterConfig, MasterRows, StreamRows
from semistream.workloads.tpch import TpchSource
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

__all__ = [
    "KINDS",
    "REPORT_SCHEMA",
    "AbsentKeys",
    "Arrival",
    "Arrivals",
    "BurstyArrivals",
    "CloudReports",
    "DriftConfig",
    "DriftKeys",
    "KeyReader",
    "KeySource",
    "Kind",
    "LocalityConfig",
    "LocalityKeys",
    "MasterConfig",
    "MasterRows",
    "Output",
    "PaddedReports",
    "PoissonArrivals",
    "ReportConfig",
    "ReportFiles",
    "RowFunction",
    "RowSource",
    "SteadyArrivals",
    "StreamRows",
    "TpchSource",
    "Workload",
    "Written",
    "ZipfConfig",
    "ZipfKeys",
    "arrival_times",
    "arriving",
    "format_reports",
    "make",
    "make_arrivals",
    "parse_reports",
    "read_note",
    "with_arrivals",
    "write_workload",
]
