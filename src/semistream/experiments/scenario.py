"""The data of a run: a table that costs nothing to have, the stream that asks for its keys, and the memory allowed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from semistream.cost_model.frequencies import KeyProfile, profile_of_counts, zipf_profile
from semistream.cost_model.profiles import DeviceProfile
from semistream.cost_model.setting import Setting, Sizes
from semistream.errors import ConfigError
from semistream.experiments.keys import TpchOrderKeys, WeatherKeys
from semistream.master_table.virtual import VirtualTable, VirtualTableConfig
from semistream.workloads.arrivals import Arrivals
from semistream.workloads.contracts import KeySource, RowSource
from semistream.workloads.locality import LocalityConfig, LocalityKeys
from semistream.workloads.many_to_many import KEY_STRIDE, AbsentKeys
from semistream.workloads.registry import make_arrivals
from semistream.workloads.synthetic import StreamRows
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

KeysName = Literal["zipf", "locality", "tpch", "weather"]
ArrivalsName = Literal["", "steady", "poisson", "bursty"]
LOCALITY_INTERVALS = 25
ARRIVAL_STEP_S = 0.01
_SAMPLE_ROWS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A point of the papers' grids.

    Parameters
    ----------
    table_rows, row_bytes, rows_per_key: |R|, v_R, m. stream_row_bytes: v_S.
    memory_share: of |R| v_R; or memory_fixed_bytes, if that is not 0.
    keys, skew: the stream's keys, and their Zipf exponent where they have one.
    clustered: R is sorted by how often keys are asked for (001 sect. 5); else hot keys are spread over R.
    absent: share of stream rows whose key R lacks.
    interval_rows: of `locality`, see `LocalityConfig`.
    arrivals, rows_per_s: the schedule of the stream; without one it never runs dry.
    """

    table_rows: int
    memory_share: float = 0.10
    memory_fixed_bytes: int = 0
    keys: KeysName = "zipf"
    skew: float = 1.0
    row_bytes: int = 120
    stream_row_bytes: int = 20
    page_bytes: int = 8192
    rows_per_key: int = 1
    absent: float = 0.0
    clustered: bool = False
    interval_rows: int = 0
    arrivals: ArrivalsName = ""
    rows_per_s: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.table_rows >= 1 and self.memory_share > 0 and self.memory_fixed_bytes >= 0):
            raise ConfigError(
                f"{self.table_rows} rows and {self.memory_share} of them as memory make no scenario.",
                hint="both are above 0.",
            )
        if self.keys == "locality" and self.interval_rows < 1:
            raise ConfigError("temporal locality has intervals.", hint="pass interval_rows.")

    @property
    def memory_bytes(self) -> int:
        return self.memory_fixed_bytes or int(self.memory_share * self.table_rows * self.row_bytes)

    @property
    def key_count(self) -> int:
        """Join values of the table."""
        return self.table_rows // self.rows_per_key

    @cached_property
    def table(self) -> VirtualTable:
        return VirtualTable(
            VirtualTableConfig(
                rows=self.key_count * self.rows_per_key,
                row_bytes=self.row_bytes,
                rows_per_key=self.rows_per_key,
                key_stride=KEY_STRIDE if self.absent else 1,
                page_bytes=self.page_bytes,
                seed=self.seed,
            )
        )

    @property
    def zipf(self) -> ZipfConfig:
        return ZipfConfig(
            keys=self.key_count, exponent=self.skew, seed=self.seed, scattered=not self.clustered
        )

    @cached_property
    def key_source(self) -> KeySource:
        if self.keys == "tpch":
            return TpchOrderKeys(customers=self.key_count, seed=self.seed)
        if self.keys == "weather":
            return WeatherKeys(longitudes=self.key_count, skew=self.skew, seed=self.seed)
        keys: KeySource = ZipfKeys(self.zipf)
        if self.keys == "locality":
            keys = LocalityKeys(
                LocalityConfig(zipf=self.zipf, intervals=LOCALITY_INTERVALS, interval_rows=self.interval_rows)
            )
        return AbsentKeys(present=keys, share=self.absent, seed=self.seed) if self.absent else keys

    @property
    def stream(self) -> RowSource:
        return StreamRows(keys=self.key_source, row_bytes=self.stream_row_bytes, seed=self.seed).source

    @property
    def schedule(self) -> Arrivals | None:
        if not self.arrivals:
            return None
        return make_arrivals(self.arrivals, rows_per_s=self.rows_per_s, step_s=ARRIVAL_STEP_S, seed=self.seed)

    @property
    def profile(self) -> KeyProfile:
        """How often each key is asked for; under temporal locality, within an interval."""
        if self.keys == "tpch":
            ordering = TpchOrderKeys(customers=self.key_count, seed=self.seed).ordering
            return KeyProfile.of(
                np.array([float(ordering), float(self.key_count - ordering)]),
                np.array([1.0 / ordering, 0.0]),
            )
        if self.keys == "weather":
            return _weather_profile(self.key_count, self.skew, self.seed)
        asked = self.key_count // (LOCALITY_INTERVALS if self.keys == "locality" else 1)
        present = zipf_profile(max(1, asked), float(self.skew))
        return with_absent(present, self.absent) if self.absent else present

    def setting(self, device: DeviceProfile, sizes: Sizes | None = None) -> Setting:
        """The same as the cost models see it; by default with the papers' bytes for everything held."""
        sizes = sizes or Sizes(v_S=self.stream_row_bytes, v_R=self.row_bytes, fence=0.0)
        return Setting(
            R_t=self.key_count * self.rows_per_key,
            keys=self.profile,
            device=device,
            sizes=sizes,
            m=float(self.rows_per_key),
            u=self.absent,
            page_bytes=self.page_bytes,
            clustered=self.clustered,
        )


def with_absent(present: KeyProfile, share: float) -> KeyProfile:
    """Beside every key another one that R lacks, which takes `share` of its rows: what `AbsentKeys` draws."""
    counts = np.concatenate((present.counts, present.counts))
    probability = np.concatenate(((1 - share) * present.probability, share * present.probability))
    order = np.argsort(-probability, kind="stable")
    return KeyProfile.of(counts[order], probability[order])


@lru_cache(maxsize=8)
def _weather_profile(longitudes: int, skew: float, seed: int) -> KeyProfile:
    keys = WeatherKeys(longitudes=longitudes, skew=skew, seed=seed).keys(batch=0, rows=_SAMPLE_ROWS)
    return profile_of_counts(np.bincount(keys, minlength=longitudes))
