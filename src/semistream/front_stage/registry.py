"""Front stages by name. Each can stand before any access path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from semistream.core.budget import MemoryBudget
from semistream.core.contracts import FrontStage
from semistream.core.exchange import Split
from semistream.core.rows import RowLayout
from semistream.errors import ConfigError
from semistream.front_stage.balanced import BalancedFrontStage, BalancedSettings
from semistream.front_stage.clairvoyant import ClairvoyantFrontStage, Probabilities
from semistream.front_stage.density import SIZE_MIN_BYTES as DENSITY_BYTES_MIN
from semistream.front_stage.density import DensityFrontStage
from semistream.front_stage.frequency import RecentKeys
from semistream.front_stage.lru import LruFrontStage
from semistream.front_stage.none import NoFrontStage
from semistream.front_stage.region import Region
from semistream.front_stage.s3_fifo import S3FifoFrontStage
from semistream.front_stage.threshold import ThresholdFrontStage, ThresholdSettings
from semistream.front_stage.w_tinylfu import WTinyLfuFrontStage

RECENT_KEYS_SHARE = 1 / 32  # of the front stage's bytes, for CINLJ's temporary buffer


@dataclass(frozen=True, kw_only=True)
class FrontStageRequest:
    """What a front stage is made from: all that any of them asks for.

    It reserves `size_bytes` of the budget under the name "front stage"; `balanced` as much of them as it
    needs at the time. `row_bytes` is the expected size of a master row, `waiting_row_bytes` what one waiting row
    takes, `decode_bytes` what may be used while rows are taken. With `one_by_one`, rows do not wait together, and the
    threshold counts recent keys itself. `region` and `identity` are for `density`, which can outlive the process; without
    a region it gets a private one. With a `split`, it takes and gives back memory as that says.
    """

    budget: MemoryBudget
    size_bytes: int
    layout: RowLayout
    fixed: bool
    row_bytes: float
    decode_bytes: int
    waiting_row_bytes: float = 100.0
    one_by_one: bool = False
    threshold: ThresholdSettings | None = None
    balanced: BalancedSettings | None = None
    probabilities: Probabilities | None = None
    region: Region | None = None
    identity: str = ""
    split: Split | None = None


def make_front_stage(name: str, request: FrontStageRequest) -> FrontStage:
    """ConfigError for a name that is not in FRONT_STAGES."""
    if name not in FRONT_STAGES:
        raise ConfigError(
            f"front_stage={name!r} is unknown.", hint=f"choose one of: {', '.join(FRONT_STAGES)}."
        )
    return FRONT_STAGES[name](request)


def _none(request: FrontStageRequest) -> FrontStage:
    return NoFrontStage(request.layout)


def _density(request: FrontStageRequest) -> FrontStage:
    region = request.region or Region.private(request.size_bytes)
    return DensityFrontStage(
        region,
        layout=request.layout,
        fixed=request.fixed,
        identity=request.identity,
        row_bytes=request.row_bytes,
        decode_bytes=request.decode_bytes,
        reservation=request.budget.reserve("front stage", region.size_bytes),
        split=request.split,
    )


def _threshold(request: FrontStageRequest) -> FrontStage:
    _reserve(request)
    detector = RecentKeys(int(request.size_bytes * RECENT_KEYS_SHARE)) if request.one_by_one else None
    return ThresholdFrontStage(
        request.size_bytes,
        layout=request.layout,
        fixed=request.fixed,
        row_bytes=request.row_bytes,
        decode_bytes=request.decode_bytes,
        settings=request.threshold,
        detector=detector,
    )


def _balanced(request: FrontStageRequest) -> FrontStage:
    return BalancedFrontStage(
        request.budget,
        bytes_max=request.size_bytes,
        layout=request.layout,
        fixed=request.fixed,
        row_bytes=request.row_bytes,
        waiting_row_bytes=request.waiting_row_bytes,
        decode_bytes=request.decode_bytes,
        settings=request.balanced,
    )


def _clairvoyant(request: FrontStageRequest) -> FrontStage:
    if request.probabilities is None:
        raise ConfigError(
            "front_stage='clairvoyant' needs the keys' probabilities.",
            hint="it is a bound for experiments: pass probabilities=.",
        )
    _reserve(request)
    return ClairvoyantFrontStage(
        request.size_bytes,
        layout=request.layout,
        fixed=request.fixed,
        row_bytes=request.row_bytes,
        decode_bytes=request.decode_bytes,
        probabilities=request.probabilities,
    )


def _for_comparison(
    kind: type[LruFrontStage] | type[WTinyLfuFrontStage] | type[S3FifoFrontStage],
) -> Callable[[FrontStageRequest], FrontStage]:
    def made(request: FrontStageRequest) -> FrontStage:
        _reserve(request)
        return kind(
            request.size_bytes,
            layout=request.layout,
            fixed=request.fixed,
            row_bytes=request.row_bytes,
            decode_bytes=request.decode_bytes,
        )

    return made


def _reserve(request: FrontStageRequest) -> None:
    request.budget.reserve("front stage", request.size_bytes)


FRONT_STAGES: dict[str, Callable[[FrontStageRequest], FrontStage]] = {
    "none": _none,
    "threshold": _threshold,
    "balanced": _balanced,
    "density": _density,
    "lru": _for_comparison(LruFrontStage),
    "w_tinylfu": _for_comparison(WTinyLfuFrontStage),
    "s3_fifo": _for_comparison(S3FifoFrontStage),
    "clairvoyant": _clairvoyant,
}

_TABLE_BYTES_MIN = 8192  # some dozen keys

SIZES_MIN_BYTES = dict.fromkeys(FRONT_STAGES, _TABLE_BYTES_MIN) | {"none": 0, "density": DENSITY_BYTES_MIN}
