"""Device profiles: what a positioning, a byte and a probe cost on the papers' machine, on NVMe, or here."""

# The papers' symbols keep their case.
# ruff: noqa: N815

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from semistream.cost_model.work import Work
from semistream.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """The constants of the papers' cost models; all times in seconds.

    Parameters
    ----------
    name, source: what it describes, and where the numbers are from.
    positioning_s: from asking for a page somewhere else until its first byte, one at a time.
    in_flight: how many positionings the device works on at once, when they are asked for together.
    request_s: fixed cost of one read call, positioning apart.
    sequential_bytes_per_s: transfer once positioned.
    c_H: look up one row in H_R or H_S. c_O: output one row. c_E: remove one row from H_S and Q.
    c_S: take one row from the stream buffer. c_A: append one row to H_S and Q.
    c_B: move one master row into the front stage. c_step: fixed cost of a turn of the loop.

    001 table 1, 003 table 1: the same constants, there in nanoseconds.
    """

    name: str
    source: str
    positioning_s: float
    request_s: float
    sequential_bytes_per_s: float
    in_flight: float = 1.0
    c_H: float
    c_O: float
    c_E: float
    c_S: float
    c_A: float
    c_B: float
    c_step: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("name", "source"):
                continue
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(
                    f"device profile '{self.name}': {field.name} must be a time or a rate, got {value}.",
                    hint="use a named profile, or repeat the calibration.",
                )
        if self.sequential_bytes_per_s <= 0 or self.in_flight < 1:
            raise ConfigError(
                f"device profile '{self.name}' reads {self.sequential_bytes_per_s:g} bytes/s with "
                f"{self.in_flight:g} reads in flight.",
                hint="both must be positive, and at least one read is in flight.",
            )

    @property
    def waits_overlap(self) -> bool:
        """Whether reads that are asked for together take less time than one after the other."""
        return self.in_flight > 1

    def read_seconds(self, work: Work) -> float:
        return (
            work.random_reads * self.positioning_s
            + work.random_reads_overlapped * self.positioning_s / self.in_flight
            + work.read_requests * self.request_s
            + work.bytes_read / self.sequential_bytes_per_s
        )

    def processor_seconds(self, work: Work) -> float:
        return (
            work.probes * self.c_H
            + work.rows_out * self.c_O
            + work.removals * self.c_E
            + work.rows_in * self.c_S
            + work.appends * self.c_A
            + work.switched * self.c_B
            + work.steps * self.c_step
        )

    def seconds(self, work: Work) -> float:
        """The time that the work takes: a linear function of its counters, reading and computing in turns."""
        return self.read_seconds(work) + self.processor_seconds(work)

    def random_bytes_per_s(self, page_bytes: int, *, overlapped: bool = True) -> float:
        """How fast pages come when each is somewhere else."""
        positioning_s = self.positioning_s / (self.in_flight if overlapped else 1.0)
        return page_bytes / (positioning_s + self.request_s + page_bytes / self.sequential_bytes_per_s)


# Disk: a 7200 rpm desktop drive of the time. Rotational latency is half a turn, 60 / 7200 / 2 = 4.16 ms; data
# sheets give 8.0 to 8.5 ms average read seek (Seagate Constellation 7200: 8.0; Barracuda 7200.7: 8.5) and
# 138 MB/s on the outermost track of a 500 GB platter (Barracuda XT), which is about 100 MB/s over the whole
# drive, as inner tracks are half as long. A request is a MySQL fetch on the same host, by rule of thumb.
# Processor: no paper prints its constants. These are estimates for boxed Java objects on an i5 of 2012, where
# a step into memory that is not cached takes about 90 ns: two for a lookup, four where links are changed.
HDD2012 = DeviceProfile(
    name="hdd2012",
    source="data sheets of 7200 rpm desktop drives (500 GB platters); processor times estimated, not measured",
    positioning_s=8.5e-3 + 4.16e-3,
    request_s=150e-6,
    sequential_bytes_per_s=100e6,
    in_flight=1.0,
    c_H=0.20e-6,
    c_O=0.40e-6,
    c_E=0.40e-6,
    c_S=0.10e-6,
    c_A=0.40e-6,
    c_B=0.60e-6,
    c_step=50e-6,
)

# Disk: a data-centre TLC drive on PCIe 4 as its vendors state it (80 to 100 us for a random 4 KiB read at
# depth 1, 5 to 7 GB/s sequential, about a million random reads a second at depth 256), read through a file
# system by one thread: 3.2 GB/s, 64 in flight, 3 us of system call and block layer a request.
# Processor: estimates as well, for compiled kernels on a server core of the 2020s and tables of gigabytes. The
# calibration's stand-ins take 10 to 60 ns on tables of tens of megabytes.
NVME = DeviceProfile(
    name="nvme",
    source="vendors' figures for PCIe 4 data-centre drives, read by one thread; processor times estimated",
    positioning_s=100e-6,
    request_s=3e-6,
    sequential_bytes_per_s=3.2e9,
    in_flight=64.0,
    c_H=60e-9,
    c_O=50e-9,
    c_E=60e-9,
    c_S=20e-9,
    c_A=80e-9,
    c_B=150e-9,
    c_step=20e-6,
)

NAMED_PROFILES = {profile.name: profile for profile in (HDD2012, NVME)}
PROFILE_NAMES = (*NAMED_PROFILES, "measured")
