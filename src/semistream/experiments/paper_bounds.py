"""What the papers' own cost models allow at most: beside claims that look too good."""

# The papers' symbols keep their case.
# ruff: noqa: N806

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from semistream.cost_model import cmeshjoin, meshjoin, ssbj
from semistream.cost_model.profiles import HDD2012, DeviceProfile
from semistream.experiments.scenario import Scenario

# Processor time only makes a cache's gain smaller. Not quite nothing, so that rates stay finite.
READS_ONLY: DeviceProfile = replace(
    HDD2012, name="reads only", request_s=0.0,
    c_H=1e-12, c_O=1e-12, c_E=1e-12, c_S=1e-12, c_A=1e-12, c_B=1e-12, c_step=0.0,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PaperBound:
    says: str
    value: Callable[[Scenario], float]


def front_stage_gain(scenario: Scenario) -> float:
    """CMESHJOIN over MESHJOIN by 004 eq 4, with the best cache size there is: the maximum over h_R of
    (1 - (8 + v_R) h_R / M) / (1 - p_N(h_R)), where MESHJOIN is h_R = 0.

    >>> scenario = Scenario(table_rows=100_000_000, memory_share=0.10, skew=1.0)
    >>> round(front_stage_gain(scenario), 2)
    3.82
    """
    setting, M = scenario.setting(READS_ONLY), float(scenario.memory_bytes)
    best = cmeshjoin.best_h_R_of_eq_4(setting, M)
    return cmeshjoin.mu_cm(setting, M, h_R=best) / cmeshjoin.mu_dp(setting, M, h_R=0.0)


def hits_only(scenario: Scenario, share: float = 0.15) -> float:
    """1 / (1 - p) with p the part of the stream that the hottest rows in `share` of the memory answer: no join behind a
    front stage of that size gains more, whatever it costs, if the reads of R are what takes time."""
    setting = scenario.setting(READS_ONLY)
    keys = share * scenario.memory_bytes / setting.cached_key_bytes
    p = float(setting.keys.top(keys))
    return 1 / (1 - p) if p < 1 else math.inf


def ssbj_rate_gain(scenario: Scenario) -> float:
    """SSBJ's rate over MESHJOIN's by 003 eq 1 to 3 and theorem 2, if nothing but reading R takes time."""
    setting, M = scenario.setting(READS_ONLY), float(scenario.memory_bytes)
    return ssbj.rate_for(setting, M) / meshjoin.predict(setting, M).rows_per_s


def ssbj_memory_saving(scenario: Scenario) -> float:
    """MESHJOIN's memory over SSBJ's for the scenario's rate, by 003 eq 1 and theorem 2, likewise."""
    setting, rate = scenario.setting(READS_ONLY), scenario.rows_per_s
    return meshjoin.memory_for(setting, rate) / ssbj.memory_for(setting, rate)


PAPER_BOUNDS = {
    "front_stage_gain": PaperBound(
        says="by equation 4 of 004, the gain is at most (1 - c) / (1 - p), c the cache's share of the memory and p that "
        "of the stream, whatever c is.",
        value=front_stage_gain,
    ),
    "hits_only": PaperBound(
        says="a front stage of 15 % of the memory gains at most 1 / (1 - p), p its share of the stream.",
        value=hits_only,
    ),
    "ssbj_rate_gain": PaperBound(
        says="by equations 1 to 3 and theorem 2 of 003, with nothing but reading R taking time.",
        value=ssbj_rate_gain,
    ),
    "ssbj_memory_saving": PaperBound(
        says="by equation 1 and theorem 2 of 003, with nothing but reading R taking time.",
        value=ssbj_memory_saving,
    ),
}
