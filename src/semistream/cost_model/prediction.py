"""What a model predicts, in plain words and in the work it is made of."""

# The papers' symbols keep their case.
# ruff: noqa: N803

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from semistream.cost_model.profiles import DeviceProfile
from semistream.cost_model.search import crossing
from semistream.cost_model.setting import Setting
from semistream.cost_model.work import Counts
from semistream.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A tuned algorithm at one memory size.

    rows_per_s is mu; c_loop_s the seconds of a loop step, in which `rows_per_step` stream rows are done and
    `work` is spent. disk_buffer_bytes is what one read brings; cache_rows is h_R, with `cache_share` of
    the memory; waiting_rows is h_S. hit_ratio is the share of rows that the cache answers.
    """

    algorithm: str
    memory_bytes: float
    rows_per_s: float
    c_loop_s: float
    rows_per_step: float
    work: Counts
    disk_buffer_bytes: float
    page_bytes: int
    cache_rows: float = 0.0
    cache_share: float = 0.0
    waiting_rows: float = 0.0
    hit_ratio: float = 0.0
    reads_share: float = 0.0
    access: str = "scan"

    @property
    def bound(self) -> str:
        """What limits the rate: more than half of the time goes there."""
        return "reads" if self.reads_share > 0.5 else "processor"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "bound": self.bound}


def predict_step(
    *, algorithm: str, device: DeviceProfile, work: Counts, rows: float, **known: Any
) -> Prediction:
    """mu = rows of a step / c_loop (001 eq 4, 003 eq 3)."""
    c_loop = device.seconds(work)
    return Prediction(
        algorithm=algorithm,
        rows_per_s=rows / c_loop if c_loop > 0 else math.inf,
        c_loop_s=c_loop,
        rows_per_step=rows,
        work=work,
        reads_share=device.read_seconds(work) / c_loop if c_loop > 0 else 0.0,
        **known,
    )


class Model(Protocol):
    """What the module of each algorithm offers."""

    NAME: str
    NEEDS_INDEX: bool

    def minimum_memory(self, setting: Setting) -> float:
        """Below so many bytes it cannot run."""

    def predict(self, setting: Setting, M: float) -> Prediction:
        """Tuned for M bytes; BudgetError that says the minimum if they are too few."""

    def memory_for(self, setting: Setting, rate: float) -> float:
        """The bytes it needs for so many rows/s; infinite if no memory is enough."""


def memory_by_search(
    predict: Callable[[Setting, float], Prediction], setting: Setting, rate: float, minimum: float
) -> float:
    """The inverse of a rate that rises with memory, where there is no closed form."""
    check_rate(rate)
    # Beyond this, every algorithm has room for all of R and as much of the stream again.
    most = 64 * (minimum + setting.R_bytes + setting.R_t * setting.hybrid_row_bytes)
    if predict(setting, most).rows_per_s < rate:
        return math.inf
    return crossing(lambda M: predict(setting, M).rows_per_s, rate, minimum, most, tolerance=1e-4)


def check_rate(rate: float) -> None:
    if not (rate > 0 and math.isfinite(rate)):
        raise ConfigError(
            f"a stream cannot bring {rate} rows/s.", hint="pass the rows per second, more than 0."
        )
