"""An algorithm of the table in `joins`, or the same parts in other proportions: what sensitivity figures vary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

from semistream.errors import ConfigError
from semistream.front_stage.balanced import BalancedSettings
from semistream.front_stage.registry import FRONT_STAGES, FrontStageRequest
from semistream.front_stage.threshold import ThresholdSettings
from semistream.joins import ALGORITHMS, Composition, check_algorithm


@dataclass(frozen=True, kw_only=True)
class Variant:
    """None leaves a part as the algorithm has it.

    front_share: the front stage's share of the memory; 0 is none at all. buffer_pages: of the disk buffer.
    threshold: fixed, instead of moved while the join runs. switching_factor: sf of 003 Algorithm 1.
    """

    algorithm: str
    front_share: float | None = None
    buffer_pages: int | None = None
    threshold: int | None = None
    switching_factor: float | None = None

    def __post_init__(self) -> None:
        check_algorithm(self.algorithm)
        chosen = ALGORITHMS[self.algorithm]
        if self.threshold is not None and chosen.front_stage != "threshold":
            raise ConfigError(f"{self.algorithm} has no threshold.", hint="choose cmeshjoin, for example.")
        if self.switching_factor is not None and chosen.front_stage != "balanced":
            raise ConfigError(f"{self.algorithm} does not switch keys.", hint="choose ssbj.")

    @property
    def is_plain(self) -> bool:
        return all(getattr(self, field.name) is None for field in fields(self) if field.name != "algorithm")

    @property
    def name(self) -> str:
        """What the composition is called while it runs."""
        changed = [
            f"{field.name} {getattr(self, field.name):g}"
            for field in fields(self)
            if field.name != "algorithm" and getattr(self, field.name) is not None
        ]
        return f"{self.algorithm}, {', '.join(changed)}" if changed else self.algorithm

    @property
    def composition(self) -> Composition:
        chosen = ALGORITHMS[self.algorithm]
        shares, front = chosen.shares, chosen.front_stage
        if self.front_share is not None:
            shares = replace(shares, front_stage=self.front_share)
            front = "none" if self.front_share == 0 else front
        if self.buffer_pages is not None:
            shares = replace(shares, buffer_pages=self.buffer_pages)
        if self.threshold is not None or self.switching_factor is not None:
            front = self.name
        return replace(chosen, shares=shares, front_stage=front)


@contextmanager
def composed(variant: Variant) -> Iterator[str]:
    """The name under which `joins` knows the variant for as long as this lasts; not for several threads at once."""
    if variant.is_plain:
        yield variant.algorithm
        return
    name, chosen = variant.name, variant.composition
    ALGORITHMS[name] = chosen
    if chosen.front_stage == name:
        kind = ALGORITHMS[variant.algorithm].front_stage
        FRONT_STAGES[name] = lambda request: FRONT_STAGES[kind](_changed(request, variant))
    try:
        yield name
    finally:
        del ALGORITHMS[name]
        FRONT_STAGES.pop(name, None)


def _changed(request: FrontStageRequest, variant: Variant) -> FrontStageRequest:
    if variant.threshold is not None:
        request = replace(request, threshold=ThresholdSettings(threshold=variant.threshold, adaptive=False))
    if variant.switching_factor is not None:
        request = replace(request, balanced=BalancedSettings(switching_factor=variant.switching_factor))
    return request
