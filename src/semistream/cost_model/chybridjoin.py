"""CHYBRIDJOIN: HYBRIDJOIN behind a front stage (000 sect. 3.2).

Caching the hottest keys helps HYBRIDJOIN less than MESHJOIN: their pages were those that answered most rows
per read anyway. So w is computed anew, for the stream of those rows that miss.
"""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import partial

from semistream.cost_model import front_stage, hybridjoin
from semistream.cost_model.pages import page_profile
from semistream.cost_model.prediction import Prediction, memory_by_search, predict_step
from semistream.cost_model.search import maximise
from semistream.cost_model.setting import Setting, need

NAME = "chybridjoin"
NEEDS_INDEX = True


def minimum_memory(setting: Setting) -> float:
    """HYBRIDJOIN's, and a cache of one key."""
    return hybridjoin.minimum_memory(setting) + setting.cached_key_bytes


def predict(
    setting: Setting,
    M: float,
    *,
    h: float | None = None,
    unit_bytes: float | None = None,
    H_t: float | None = None,
) -> Prediction:
    """The service rate with the best number h of cached keys and disk buffer, or given ones; H_t likewise.

    w_B rows leave through the page, w_F = w_B p / (1 - p) through the cache (000 Algorithms 1 and 3).
    """
    need(M, minimum_memory(setting), NAME)
    if h is None or unit_bytes is None:
        h, unit_bytes = _tuned(setting, M, h, unit_bytes)
    left = M - h * setting.cached_key_bytes
    pages = page_profile(setting, unit_bytes=unit_bytes, cached_keys=h)
    if H_t is None:
        H_t = hybridjoin.waiting_rows(setting, left, unit_bytes=unit_bytes)
    w_B = hybridjoin.steady_state(pages, H_t).w
    miss = hybridjoin.step_work(setting, pages=pages, w=w_B)
    work, rows = front_stage.with_hits(setting, miss, w_B, h)
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=rows,
        memory_bytes=M,
        disk_buffer_bytes=pages.unit_bytes,
        page_bytes=setting.page_bytes,
        waiting_rows=H_t,
        access="lookup",
        **front_stage.cached(setting, M, h),
    )


def _tuned(
    setting: Setting, M: float, given_keys: float | None, given_unit: float | None
) -> tuple[float, float]:
    """One after the other: how much is cached hardly moves the best disk buffer, so two rounds are enough."""
    h = 0.0 if given_keys is None else given_keys
    unit_bytes = float(setting.page_bytes) if given_unit is None else given_unit
    room = M - hybridjoin.minimum_memory(setting)
    for _ in range(2):
        if given_unit is None:
            unit_bytes = _best_disk_buffer(setting, M, h)
        if given_keys is None:
            # A large disk buffer must not keep the search from large caches.
            most = room - (unit_bytes - setting.page_bytes)
            rate = partial(_rate, setting, M, unit_bytes)
            h = front_stage.best_keys(setting, most, rate)
    if given_unit is None:
        unit_bytes = _best_disk_buffer(setting, M, h)
    return h, unit_bytes


def _rate(setting: Setting, M: float, unit_bytes: float, h: float) -> float:
    return predict(setting, M, h=h, unit_bytes=unit_bytes).rows_per_s


def _best_disk_buffer(setting: Setting, M: float, h: float) -> float:
    left = M - h * setting.cached_key_bytes - setting.index_bytes - setting.hybrid_row_bytes
    best = maximise(
        lambda unit: _rate(setting, M, unit, h),
        float(setting.page_bytes),
        max(float(setting.page_bytes), min(left, setting.R_bytes)),
        points=8,
        refinements=6,
    )
    return hybridjoin.whole_pages(setting, best)


def memory_for(setting: Setting, rate: float) -> float:
    return memory_by_search(predict, setting, rate, minimum_memory(setting))
