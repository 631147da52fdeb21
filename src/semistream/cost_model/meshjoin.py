"""MESHJOIN: R is read in a circle, segment by segment, and every stream row meets all of it once.

Symbols: b rows of R in the disk buffer, k = R_t / b segments, w stream rows a step, k w of them waiting.
The cost model is that of 003 sect. 3.2 without its cache; the optimum below is derived in docs/cost_models.md.
"""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

import math

from semistream.cost_model.prediction import Prediction, check_rate, predict_step
from semistream.cost_model.setting import Setting, need
from semistream.cost_model.work import Counts

NAME = "meshjoin"
NEEDS_INDEX = False


def memory(setting: Setting, *, b: float, w: float) -> float:
    """M = b v_R + w (R_t / b)(v_P + f v_S): 003 eq 1 with h_R = 0."""
    return b * setting.sizes.v_R + w * setting.R_t / b * setting.mesh_row_bytes


def stream_rows(setting: Setting, M: float, *, b: float) -> float:
    """w: 003 eq 1 solved for it."""
    return max(0.0, (M - b * setting.sizes.v_R) * b / (setting.R_t * setting.mesh_row_bytes))


def segment_work(setting: Setting, *, b: float) -> Counts:
    """c_IO(b) + b c_H, the part of 003 eq 2 that does not depend on w.

    Neighbouring segments need no positioning between them, only one at the beginning of each R-cycle.
    """
    positionings = 1.0 if setting.seek_each_segment else b / setting.R_t
    return Counts(
        random_reads=positionings,
        read_requests=1.0,
        bytes_read=b * setting.sizes.v_R,
        probes=b,
        steps=1.0,
    )


def row_work(setting: Setting) -> Counts:
    """c_E + c_S + c_A + c_O for one stream row that meets R: 003 eq 2, with one output per match."""
    return Counts(appends=1.0, removals=1.0, rows_in=1.0, rows_out=setting.output_rows)


def step_work(setting: Setting, *, b: float, w: float) -> Counts:
    return segment_work(setting, b=b) + w * row_work(setting)


def c_loop(setting: Setting, *, b: float, w: float) -> float:
    """c_loop = c_IO(b) + b c_H + w (c_E + c_S + c_A + c_O): 003 eq 2 with w_N = 0."""
    return setting.device.seconds(step_work(setting, b=b, w=w))


def minimum_memory(setting: Setting) -> float:
    """One stream row a step: b v_R + (R_t / b)(v_P + f v_S), lowest at b^2 = R_t (v_P + f v_S) / v_R."""
    b = min(setting.R_t, max(1.0, math.sqrt(setting.R_t * setting.mesh_row_bytes / setting.sizes.v_R)))
    return memory(setting, b=b, w=1.0)


def best_disk_buffer(setting: Setting, M: float) -> float:
    """The b that maximises mu. With a = fixed seconds of a step and c = seconds per row of R in it,

        1 / mu = (c_E + c_S + c_A + c_O) + (a + c b) / w(b),     w(b) ~ b (M - b v_R),

    whose only minimum over b > 0 is  b = a/c (sqrt(1 + c M / (a v_R)) - 1).
    """
    a, c = _segment_seconds(setting)
    v_R = setting.sizes.v_R
    # Written so that it stays exact where a / c is far below M / v_R and where it is far above.
    ratio = c * M / (a * v_R) if a > 0 else math.inf
    b = M / v_R / (math.sqrt(1 + ratio) + 1) if math.isfinite(ratio) else 1.0
    low, high = _feasible(setting, M)
    return min(max(b, low), high)


def predict(setting: Setting, M: float, *, b: float | None = None, w: float | None = None) -> Prediction:
    """The service rate in M bytes, with the best disk buffer, and the w that fits beside it, or with given ones."""
    need(M, minimum_memory(setting), NAME)
    b = best_disk_buffer(setting, M) if b is None else b
    w = stream_rows(setting, M, b=b) if w is None else w
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=step_work(setting, b=b, w=w),
        rows=w,
        memory_bytes=M,
        disk_buffer_bytes=b * setting.sizes.v_R,
        page_bytes=setting.page_bytes,
        waiting_rows=w * setting.R_t / b,
    )


def memory_for(setting: Setting, rate: float) -> float:
    """The memory for a rate lambda, at its best disk buffer.

    w = lambda c_loop gives w = lambda (a + c b) / (1 - lambda c_w) with c_w the seconds per stream row, so
    M(b) = b v_R + g (a / b + c), g = lambda R_t (v_P + f v_S) / (1 - lambda c_w), lowest at
    b^2 = g a / v_R. Infinite if the processor alone takes longer than the stream.
    """
    check_rate(rate)
    c_w = setting.device.seconds(row_work(setting))
    if rate * c_w >= 1:
        return math.inf
    a, c = _segment_seconds(setting)
    g = rate * setting.R_t * setting.mesh_row_bytes / (1 - rate * c_w)
    b = min(setting.R_t, max(1.0, math.sqrt(g * a / setting.sizes.v_R)))
    return max(minimum_memory(setting), b * setting.sizes.v_R + g * (a / b + c))


def _segment_seconds(setting: Setting) -> tuple[float, float]:
    """a and c of `best_disk_buffer`: a segment of b rows takes a + c b seconds."""
    one = setting.device.seconds(segment_work(setting, b=1.0))
    c = setting.device.seconds(segment_work(setting, b=2.0)) - one
    return max(0.0, one - c), c


def _feasible(setting: Setting, M: float) -> tuple[float, float]:
    """The b with w(b) >= 1: between the roots of b (M - b v_R) = R_t (v_P + f v_S)."""
    v_R, product = setting.sizes.v_R, setting.R_t * setting.mesh_row_bytes
    root = math.sqrt(max(0.0, M * M - 4 * v_R * product))
    return (2 * product / (M + root), min(float(setting.R_t), (M + root) / (2 * v_R)))
