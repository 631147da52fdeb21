"""CMESHJOIN: MESHJOIN behind a front stage, and how large that should be."""

# The papers' symbols keep their case.
# ruff: noqa: N802, N803, N806

from __future__ import annotations

from semistream.cost_model import front_stage, meshjoin
from semistream.cost_model.prediction import Prediction, memory_by_search, predict_step
from semistream.cost_model.setting import Setting, need
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

NAME = "cmeshjoin"
NEEDS_INDEX = False


def p_N(setting: Setting, h_R: float) -> float:
    """The matching probability in the front stage, for any profile: 004 eq 1."""
    return float(setting.keys.top(h_R / setting.cached_key_rows))


def dp_N(setting: Setting, h_R: float) -> float:
    """p_N(h_R + 1) - p_N(h_R): 004 eq 2, where x stands for h_R."""
    return p_N(setting, h_R + 1) - p_N(setting, h_R)


def mu_dp(setting: Setting, M: float, *, h_R: float) -> float:
    """(M - (8 + v_R) h_R) / (R_t v_R): 004 eq 3, up to a factor, the disk phase's service rate."""
    per_row = setting.sizes.recorder + setting.sizes.v_R
    return (M - per_row * h_R) / (setting.R_t * setting.sizes.v_R)


def mu_cm(setting: Setting, M: float, *, h_R: float) -> float:
    """mu_dp / (1 - p_N): 004 eq 4, up to the same factor."""
    return mu_dp(setting, M, h_R=h_R) / (1 - p_N(setting, h_R))


def dmu_cm_printed(setting: Setting, M: float, *, h_R: float) -> float:
    """004 eq 6 as printed. It keeps mu_dp constant while h_R grows, so it is positive as long as memory lasts,
    and has no root to find an optimum by."""
    return mu_dp(setting, M, h_R=h_R) * dp_N(setting, h_R) / (1 - p_N(setting, h_R)) ** 2


def dmu_cm(setting: Setting, M: float, *, h_R: float) -> float:
    """The derivative of 004 eq 4 with both terms: the cache takes memory from the disk phase as it grows."""
    per_row = setting.sizes.recorder + setting.sizes.v_R
    taken = per_row / (setting.R_t * setting.sizes.v_R) / (1 - p_N(setting, h_R))
    return dmu_cm_printed(setting, M, h_R=h_R) - taken


def best_h_R_of_eq_4(setting: Setting, M: float) -> float:
    """The rows to cache by 004 eq 4 alone, I/O counted and processor time not: the root of `dmu_cm`."""
    per_row = setting.sizes.recorder + setting.sizes.v_R
    most = min(M / per_row, setting.keys.keys * setting.cached_key_rows) * (1 - 1e-9)
    if dmu_cm(setting, M, h_R=0.0) <= 0:
        return 0.0
    # One more key is worth less the more there are, while the memory it takes is worth more.
    low, high = 0.0, most
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if dmu_cm(setting, M, h_R=middle) > 0 else (low, middle)
    return low


def minimum_memory(setting: Setting) -> float:
    """MESHJOIN's, and a cache of one key."""
    return meshjoin.minimum_memory(setting) + setting.cached_key_bytes


def predict(
    setting: Setting,
    M: float,
    *,
    h: float | None = None,
    b: float | None = None,
    w_S: float | None = None,
) -> Prediction:
    """The service rate with the best number h of cached keys and disk buffer of b rows, or given ones; w_S likewise.

    c_loop = c_IO(b) + b c_H + w_S (c_H + c_S + c_A + c_E + m c_O) + w_N (c_S + c_H + m c_O), where
    w_N = w_S p / (1 - p): 003 eq 2 without switching, which is rare in steady state. Processor time
    makes the gain of a cache smaller than 004 eq 4 has it, which is 1 / (1 - p) times the memory left.
    """
    need(M, minimum_memory(setting), NAME)
    if h is None:
        room = M - meshjoin.minimum_memory(setting)
        h = front_stage.best_keys(setting, room, lambda keys: predict(setting, M, h=keys, b=b).rows_per_s)
    left = M - h * setting.cached_key_bytes
    b = meshjoin.best_disk_buffer(setting, left) if b is None else b
    w_S = meshjoin.stream_rows(setting, left, b=b) if w_S is None else w_S
    work, rows = front_stage.with_hits(setting, meshjoin.step_work(setting, b=b, w=w_S), w_S, h)
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=rows,
        memory_bytes=M,
        disk_buffer_bytes=b * setting.sizes.v_R,
        page_bytes=setting.page_bytes,
        waiting_rows=w_S * setting.R_t / b,
        **front_stage.cached(setting, M, h),
    )


def memory_for(setting: Setting, rate: float) -> float:
    return memory_by_search(predict, setting, rate, minimum_memory(setting))


def harmonic_share(h_R: int, R_t: int) -> float:
    """004 eq 1 as printed, for exponent 1 only: sum of 1/x to h_R over the sum to R_t."""
    return ZipfKeys(ZipfConfig(keys=R_t, exponent=1.0)).top_probability(h_R)
