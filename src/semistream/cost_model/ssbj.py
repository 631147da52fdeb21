"""SSBJ: a scanning join that keeps each key where it takes less memory, in the cache or among those who wait.

Memory is the dependent variable: `memory_for` is the model, and the rate for a given memory its inverse.
"""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from dataclasses import dataclass

from semistream.cost_model import balanced_cache, front_stage, meshjoin
from semistream.cost_model.prediction import Prediction, check_rate, predict_step
from semistream.cost_model.search import crossing, maximise
from semistream.cost_model.setting import Setting, need
from semistream.cost_model.work import Counts

NAME = "ssbj"
NEEDS_INDEX = False
# The processor is never wholly busy with the stream: R has to be read, however slowly.
_BUSY_MAX = 1 - 1e-6


@dataclass(frozen=True, kw_only=True)
class Balance:
    """Where the keys are when the stream brings lambda rows/s and an R-cycle takes T seconds.

    h_keys: keys of R in the cache; absent_keys: keys in it that R lacks. p: share of rows answered there.
    """

    T: float
    h_keys: float
    absent_keys: float
    p: float


def memory(setting: Setting, *, b: float, h_R: float, w_S: float) -> float:
    """M = (b + h_R f) v_R + w_S (R_t / b)(v_P + f v_S): 003 eq 1."""
    sizes = setting.sizes
    return (b + h_R * sizes.f) * sizes.v_R + w_S * setting.R_t / b * setting.mesh_row_bytes


def c_loop_printed(setting: Setting, *, b: float, w_N: float, w_S: float) -> float:
    """003 eq 2 as printed: no lookup in H_R for rows that miss, and all b rows switched in every step."""
    work = meshjoin.step_work(setting, b=b, w=w_S) + Counts(
        switched=b, probes=w_N, rows_in=w_N, rows_out=w_N * setting.output_rows
    )
    return setting.device.seconds(work)


def balance(setting: Setting, *, rate: float, T: float) -> Balance:
    """The cache inequality, m v_R < n_j v_S with n_j = lambda p_j T rows of key j waiting (003 theorem 2).

    A key that R lacks has m = 0 and is cached for the bytes of its entry.
    """
    waiting_bytes = rate * T * setting.sizes.v_S
    h = setting.keys.hotter_than(setting.m * setting.sizes.v_R / waiting_bytes)
    absent = setting.keys.hotter_than(setting.sizes.absent / waiting_bytes) if setting.u > 0 else 0.0
    p = (1 - setting.u) * float(setting.keys.top(h)) + setting.u * float(setting.keys.top(absent))
    return Balance(T=T, h_keys=(1 - setting.u) * h, absent_keys=setting.u * absent, p=min(p, 1.0))


def fixed_point(setting: Setting, *, rate: float, b: float) -> Balance:
    """The R-cycle's length and the cache that follow from each other.

    T = k (c_IO(b) + b c_H) / (1 - lambda c(T)), c the mean seconds per stream row. A longer cycle lets more
    keys into the cache, where rows are cheaper, which shortens the cycle: so there is exactly one T.
    """
    cycle_s = setting.R_t / b * setting.device.seconds(meshjoin.segment_work(setting, b=b))
    hit_s, miss_s = hit_seconds(setting), miss_seconds(setting)

    def cycle_from(T: float) -> float:
        p = balance(setting, rate=rate, T=T).p
        busy = rate * (p * hit_s + (1 - p) * miss_s)
        return cycle_s / (1 - busy) if busy < 1 else math.inf

    low = cycle_s / max(1 - rate * hit_s, 1e-12)
    high = low
    while cycle_from(high) > high:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if cycle_from(middle) > middle else (low, middle)
    return balance(setting, rate=rate, T=high)


def hit_seconds(setting: Setting) -> float:
    """c_S + c_H + m c_O."""
    return setting.device.seconds(_hit_work(setting))


def miss_seconds(setting: Setting) -> float:
    """c_E + c_S + c_A + m c_O, and c_H for the lookup in H_R that 003 eq 2 leaves out."""
    return setting.device.seconds(_miss_work(setting))


def rate_max(setting: Setting) -> float:
    """What no memory can exceed: all of R cached, nothing but hits."""
    return 1 / hit_seconds(setting)


def main_memory(setting: Setting) -> float:
    """mm of 003 theorem 3: all of R in the cache, and with it every key that R lacks; no disk buffer."""
    sizes = setting.sizes
    return setting.R_t * sizes.f * sizes.v_R + setting.u * setting.keys.keys * sizes.absent


def memory_at(setting: Setting, *, rate: float, b: float) -> float:
    """003 eq 1 at the fixed point for a rate; 003 eq 6 equates this with lambda by mistake (its unit is bytes/s)."""
    found = fixed_point(setting, rate=rate, b=b)
    w_S = rate * (1 - found.p) * found.T * b / setting.R_t
    # The fixed point has a step where many keys are equally hot; memory never exceeds having them all.
    return (
        memory(setting, b=b, h_R=found.h_keys * setting.m, w_S=w_S) + found.absent_keys * setting.sizes.absent
    )


def best_disk_buffer(setting: Setting, rate: float) -> float:
    """The b that needs the least memory for the rate."""
    per_page = max(1.0, setting.page_bytes / setting.sizes.v_R)
    return maximise(
        lambda b: -memory_at(setting, rate=rate, b=b), min(per_page, setting.R_t / 2), float(setting.R_t)
    )


def memory_for(setting: Setting, rate: float) -> float:
    """The least memory for the rate; infinite if even a cache of all R is too slow."""
    check_rate(rate)
    if rate >= rate_max(setting) * _BUSY_MAX:
        return math.inf
    return max(minimum_memory(setting), memory_at(setting, rate=rate, b=best_disk_buffer(setting, rate)))


def minimum_memory(setting: Setting) -> float:
    """MESHJOIN's: a cache may be empty."""
    return meshjoin.minimum_memory(setting)


def rate_for(setting: Setting, M: float, *, b: float | None = None) -> float:
    """The highest rate that M bytes are enough for, with the best disk buffer or b rows of R."""
    need(M, minimum_memory(setting), NAME)
    most = rate_max(setting) * _BUSY_MAX

    def needed(rate: float) -> float:
        return memory_at(setting, rate=rate, b=best_disk_buffer(setting, rate) if b is None else b)

    return crossing(needed, M, most * 1e-9, most * _BUSY_MAX, tolerance=1e-4)


def predict(
    setting: Setting,
    M: float,
    *,
    b: float | None = None,
    h: float | None = None,
    w_S: float | None = None,
    theta: float | None = None,
) -> Prediction:
    """The rate of `rate_for`, and the cache that the inequality leads to at this rate.

    h, w_S: cached keys and waiting rows a step of a run that was measured; the inequality is then its own. theta: how
    many waiting rows a cached key was worth there; with it, the cache is one that was filled by counts.
    """
    if h is not None:
        b = best_disk_buffer(setting, rate_for(setting, M)) if b is None else b
        left = M - h * setting.cached_key_bytes
        w_S = meshjoin.stream_rows(setting, left, b=b) if w_S is None else w_S
        p = front_stage.hit_ratio(setting, h)
        if theta is not None:
            p = min(p, balanced_cache.hit_ratio(setting.keys, h, theta))
        rows, h_R, absent = w_S / (1 - p), h * setting.cached_key_rows, 0.0
        return _prediction(setting, M, b=b, rows=rows, p=p, h_R=h_R, absent=absent)
    rate = rate_for(setting, M, b=b)
    b = best_disk_buffer(setting, rate) if b is None else b
    found = fixed_point(setting, rate=rate, b=b)
    rows, h_R = rate * found.T * b / setting.R_t, found.h_keys * setting.m
    return _prediction(setting, M, b=b, rows=rows, p=found.p, h_R=h_R, absent=found.absent_keys)


def _prediction(
    setting: Setting, M: float, *, b: float, rows: float, p: float, h_R: float, absent: float
) -> Prediction:
    work = meshjoin.segment_work(setting, b=b)
    work = work + rows * p * _hit_work(setting) + rows * (1 - p) * _miss_work(setting)
    cache_bytes = h_R * setting.sizes.f * setting.sizes.v_R + absent * setting.sizes.absent
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=rows,
        memory_bytes=M,
        disk_buffer_bytes=b * setting.sizes.v_R,
        page_bytes=setting.page_bytes,
        waiting_rows=rows * (1 - p) * setting.R_t / b,
        cache_rows=h_R,
        cache_share=min(1.0, cache_bytes / M),
        hit_ratio=p,
    )


def _hit_work(setting: Setting) -> Counts:
    return Counts(probes=1.0, rows_in=1.0, rows_out=setting.output_rows)


def _miss_work(setting: Setting) -> Counts:
    return meshjoin.row_work(setting) + Counts(probes=1.0)
