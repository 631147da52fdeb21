"""What a cost model is asked about: a master table, a stream, and a device."""

# The papers' symbols keep their case.
# ruff: noqa: N802, N803, N815

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from semistream.cost_model.frequencies import KeyProfile, zipf_profile
from semistream.cost_model.profiles import DeviceProfile
from semistream.errors import BudgetError, ConfigError
from semistream.workloads.zipf import EXPONENT_MAX, KEYS_MAX


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Bytes of everything that is held in numbers; the defaults are the papers'.

    v_S, v_R: a stream row, a master row. v_P: a node of the queue in MESHJOIN and its kin (003 table 2).
    v_Q: a node of HYBRIDJOIN's queue, which has links both ways (001 table 2: 12).
    f: fudge factor of both hash tables, bytes held per byte stored. 003 has the symbol (table 1, eq 1) and gives no
        value. 001 (table 1: H_t = H_m / v_S) and 004 (h_R v_R, eq 3) have none, which is f = 1; so with the default
        all their equations hold as printed, and 003's memory is a lower bound. It multiplies all that waits and all
        that is cached alike.
    recorder: the frequency recorder, per cached row (004 sect. 3.2: 8).
    absent: a cached key that the master table does not hold; the papers neglect it.
    fence: what an index costs in memory, per page; the papers neglect it, the page store takes about ten.
    """

    v_S: float = 20.0
    v_R: float = 120.0
    v_P: float = 4.0
    v_Q: float = 12.0
    f: float = 1.0
    recorder: float = 8.0
    absent: float = 16.0
    fence: float = 10.0

    def __post_init__(self) -> None:
        for name in ("v_S", "v_R"):
            if not 0 < getattr(self, name) < 2**31:
                raise ConfigError(
                    f"a row cannot have {name}={getattr(self, name)} bytes.", hint="give its average size."
                )
        if not self.f >= 1 or min(self.v_P, self.v_Q, self.recorder, self.absent, self.fence) < 0:
            raise ConfigError(
                f"sizes must not be negative, and a hash table holds at least what is stored in it: {self}.",
                hint="f is 1 or more.",
            )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One point of the papers' grids, memory apart. Make it with `Setting.zipf`, or from a sample's profile.

    R_t: rows of the master table. m: rows per key. u: share of stream rows whose key it does not hold;
    such keys are spread evenly over the ranks. keys: the stream's profile, over all R_t / m / (1 - u) keys
    it may ask for. clustered: keys that are alike in frequency are neighbours in R (001 sect. 5); else hot
    keys are spread over all pages. index_proves_absence: a lookup of an unknown key reads no page (000
    Algorithm 1, line 8); the page store's fences cannot tell, so there it reads the page where it would be.
    seek_each_segment: something else uses the disk between two segments of a scan.
    """

    R_t: int
    keys: KeyProfile
    device: DeviceProfile
    sizes: Sizes = Sizes()
    m: float = 1.0
    u: float = 0.0
    page_bytes: int = 8192
    clustered: bool = False
    index_proves_absence: bool = False
    seek_each_segment: bool = False

    def __post_init__(self) -> None:
        if self.R_t < 1:
            raise ConfigError(
                f"the master table has {self.R_t} rows; there is nothing to plan.",
                hint="pass the number of its rows, 1 or more.",
            )
        if not 1 <= self.m <= self.R_t:
            raise ConfigError(
                f"{self.m:g} rows per key do not fit a table of {self.R_t:,} rows.",
                hint="pass the average number of master rows of a key, 1 or more.",
            )
        if not 0 <= self.u < 1:
            raise ConfigError(
                f"the share of stream rows without a match must be at least 0 and below 1, got {self.u:g}.",
                hint="0.1 means that every tenth stream row has a key the table does not hold.",
            )
        if not 1 <= self.page_bytes <= 1 << 30:
            raise ConfigError(f"a page cannot have {self.page_bytes} bytes.", hint="8192 is the default.")

    @classmethod
    def zipf(
        cls,
        *,
        R_t: int,
        exponent: float,
        device: DeviceProfile,
        m: float = 1.0,
        u: float = 0.0,
        sizes: Sizes | None = None,
        page_bytes: int = 8192,
        clustered: bool = False,
        index_proves_absence: bool = False,
    ) -> Setting:
        """A stream whose keys follow Zipf's law with any exponent from 0 on."""
        if not 0 <= exponent <= EXPONENT_MAX:
            raise ConfigError(
                f"the skew must lie between 0 and {EXPONENT_MAX:g}, got {exponent:g}.",
                hint="0 asks for all keys equally often, 1 is the classic Zipf law.",
            )
        # A point without rows or with an impossible share is refused by the constructor, in its own words.
        keys = distinct_keys(R_t, m, u) if R_t >= 1 and m >= 1 and 0 <= u < 1 else 1
        return cls(
            R_t=R_t,
            keys=zipf_profile(keys, float(exponent)),
            device=device,
            sizes=sizes or Sizes(),
            m=m,
            u=u,
            page_bytes=page_bytes,
            clustered=clustered,
            index_proves_absence=index_proves_absence,
        )

    def with_pages(self, page_bytes: int) -> Setting:
        return replace(self, page_bytes=page_bytes)

    @property
    def R_bytes(self) -> float:
        return self.R_t * self.sizes.v_R

    @property
    def pages(self) -> float:
        return max(1.0, math.ceil(self.R_bytes / self.page_bytes))

    @property
    def output_rows(self) -> float:
        """Joined rows per stream row."""
        return (1 - self.u) * self.m

    @property
    def index_bytes(self) -> float:
        return self.pages * self.sizes.fence

    @property
    def mesh_row_bytes(self) -> float:
        """A row in H_S and the queue of a scanning join: v_P + f v_S (003 eq 1)."""
        return self.sizes.v_P + self.sizes.f * self.sizes.v_S

    @property
    def hybrid_row_bytes(self) -> float:
        """A row in H and the linked queue of HYBRIDJOIN: alpha + beta of 001 eq 1."""
        return self.sizes.v_Q + self.sizes.f * self.sizes.v_S

    @property
    def cached_key_bytes(self) -> float:
        """A key in H_R with all its rows and their recorder, on average: (8 + v_R) of 004 eq 3, times m."""
        present = self.m * (self.sizes.f * self.sizes.v_R + self.sizes.recorder)
        return (1 - self.u) * present + self.u * self.sizes.absent

    @property
    def cached_key_rows(self) -> float:
        return (1 - self.u) * self.m


def distinct_keys(R_t: int, m: float, u: float) -> int:
    """All keys a stream may ask for, of which the master table holds a share 1 - u."""
    return int(min(KEYS_MAX, max(1, round(R_t / m / (1 - u)))))


def need(memory_bytes: float, minimum_bytes: float, algorithm: str) -> None:
    """BudgetError that says the minimum, if there is less."""
    if not memory_bytes >= minimum_bytes:
        raise BudgetError(
            f"{algorithm} cannot run in {memory_bytes:,.0f} bytes on this table; "
            f"the minimum is {math.ceil(minimum_bytes):,} bytes.",
            hint="give it more memory, or choose an algorithm with a smaller minimum (`semistream plan`).",
        )
