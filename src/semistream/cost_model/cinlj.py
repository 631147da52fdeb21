"""CINLJ: the front stage in front of INLJ, a baseline for what a cache does by itself (000 sect. 3.3)."""

# The papers' symbols keep their case.
# ruff: noqa: N803

from __future__ import annotations

from semistream.cost_model import front_stage, inlj
from semistream.cost_model.prediction import Prediction, memory_by_search, predict_step
from semistream.cost_model.setting import Setting, need

NAME = "cinlj"
NEEDS_INDEX = True

# 000 sect. 3.3: the temporary buffer need only be long enough to see the hottest keys twice.
TEMPORARY_BUFFER_ROWS = 1024


def temporary_buffer_bytes(setting: Setting) -> float:
    return TEMPORARY_BUFFER_ROWS * setting.hybrid_row_bytes


def minimum_memory(setting: Setting) -> float:
    """INLJ's, the temporary buffer, and a cache of one key."""
    return inlj.minimum_memory(setting) + temporary_buffer_bytes(setting) + setting.cached_key_bytes


def predict(setting: Setting, M: float, *, h: float | None = None) -> Prediction:
    """CINLJ: 1 / mu = (c_S + c_H + m c_O) + (1 - p_N(h)) (cost of a lookup); all memory is the cache's.

    h: cached keys, each with all its rows.
    """
    need(M, minimum_memory(setting), NAME)
    if h is None:
        fixed = inlj.minimum_memory(setting) + temporary_buffer_bytes(setting)
        h = front_stage.keys_that_fit(setting, M - fixed)
    miss = inlj.step_work(setting, cached_keys=h)
    work, rows = front_stage.with_hits(setting, miss, 1.0, h)
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=rows,
        memory_bytes=M,
        disk_buffer_bytes=float(setting.page_bytes),
        page_bytes=setting.page_bytes,
        access="lookup",
        waiting_rows=1.0,
        **front_stage.cached(setting, M, h),
    )


def memory_for(setting: Setting, rate: float) -> float:
    return memory_by_search(predict, setting, rate, minimum_memory(setting))
