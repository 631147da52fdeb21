"""The generic front stage: what a cache of the hottest keys in front of any algorithm answers, takes and costs."""

# The papers' symbols keep their case.
# ruff: noqa: N803

from __future__ import annotations

from collections.abc import Callable

from semistream.cost_model.search import maximise
from semistream.cost_model.setting import Setting
from semistream.cost_model.work import Counts

_NEARLY_ALL = 1 - 1e-9


def hit_ratio(setting: Setting, keys: float) -> float:
    """p_N of 004 eq 1, for any profile: the share of rows that the hottest `keys` keys answer."""
    return min(float(setting.keys.top(keys)), _NEARLY_ALL)


def with_hits(setting: Setting, misses_work: Counts, misses: float, keys: float) -> tuple[Counts, float]:
    """The work of a step in which `misses` rows get past the cache, and all rows that this step takes.

    A row that misses pays one lookup in H_R on top (003 eq 2 forgets it). A hit pays c_S + c_H + m c_O.
    In steady state the set of cached keys stands, so nothing is switched.
    """
    p = hit_ratio(setting, keys)
    hits = misses * p / (1 - p)
    front = Counts(probes=misses) + hits * hit_work(setting)
    return misses_work + front, misses + hits


def hit_work(setting: Setting) -> Counts:
    return Counts(probes=1.0, rows_in=1.0, rows_out=setting.output_rows)


def keys_that_fit(setting: Setting, memory_bytes: float) -> float:
    return min(setting.keys.keys, max(0.0, memory_bytes) / setting.cached_key_bytes)


def best_keys(setting: Setting, memory_bytes: float, rate: Callable[[float], float]) -> float:
    """How many keys to cache, of those that fit into `memory_bytes`, for the highest `rate`; 0 if none helps."""
    most = keys_that_fit(setting, memory_bytes)
    if most <= 0:
        return 0.0
    low = min(1.0, most / 2)
    best = maximise(rate, low, most)
    return max((0.0, best), key=rate)


def cached(setting: Setting, M: float, h: float) -> dict[str, float]:
    """How a prediction describes a cache of h keys."""
    return {
        "cache_rows": h * setting.cached_key_rows,
        "cache_share": h * setting.cached_key_bytes / M,
        "hit_ratio": float(setting.keys.top(h)),
    }
