"""HYBRIDJOIN: the key that waits longest picks the page; the page answers all rows that wait for it.

001 sect. 4.4 with a general w in place of its fitted eq 2. Symbols: H_t rows wait; v_P of 001 is the disk page,
here `unit_bytes`, as v_P is a queue node in the later papers.
"""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semistream.cost_model.pages import PageProfile, page_profile
from semistream.cost_model.prediction import Prediction, memory_by_search, predict_step
from semistream.cost_model.search import maximise
from semistream.cost_model.setting import Setting, need
from semistream.cost_model.work import Counts

NAME = "hybridjoin"
NEEDS_INDEX = True
_ROUNDS_MAX = 60


@dataclass(frozen=True, kw_only=True)
class SteadyState:
    """A: the age of the oldest row, in stream rows that entered since. w: rows that leave per page read."""

    A: float
    w: float


def waiting_rows(setting: Setting, M: float, *, unit_bytes: float) -> float:
    """H_t: what eq 1 leaves beside the disk buffer, shared as alpha : beta = f v_S : v_Q, and the index."""
    return max(0.0, (M - setting.index_bytes - unit_bytes) / setting.hybrid_row_bytes)


def steady_state(pages: PageProfile, H_t: float) -> SteadyState:
    """The expected rows matched by a page, from the rate at which each page is loaded.

    A page with probability q is loaded A rows after the first row that needs it, when that row is the oldest;
    then it takes all its rows with it, 1 + q A on average, and the next one comes 1 / q rows later. So it is
    loaded q / (1 + q A) times per stream row, and on average A q (1 + q A / 2) / (1 + q A) rows wait for it.
    The sum of these over all pages is H_t, which determines A; w is one over the sum of the loads. Rows that
    the index answers without a read wait for A as well.

    This replaces w = -k H_t D_t / R_t with k = -1.36 (001 eq 2), which was fitted to one setting.
    """
    q, counts = pages.q, pages.counts
    A = H_t
    for _ in range(_ROUNDS_MAX):
        qa = q * A
        # Rows waiting, and their derivative by A; both rise, and A lies between H_t and 2 H_t.
        held = float(counts @ (qa * (1 + qa / 2) / (1 + qa))) + pages.no_read * A
        slope = float(counts @ (q * (1 + qa + qa * qa / 2) / (1 + qa) ** 2)) + pages.no_read
        change = (H_t - held) / slope
        A = min(max(A + change, H_t), 2 * H_t)
        if abs(change) <= 1e-9 * A:
            break
    loads = float(counts @ (q / (1 + q * A)))
    return SteadyState(A=A, w=1.0 / loads if loads > 0 else np.inf)


def w_fitted(setting: Setting, *, H_t: float, D_t: float, k: float = -1.36) -> float:
    """w = -k H_t D_t / R_t: 001 eq 2 as printed, kept for comparison."""
    return -k * H_t * D_t / setting.R_t


def step_work(setting: Setting, *, pages: PageProfile, w: float) -> Counts:
    """001 eq 3: c_IO(v_P) + (v_P / v_R) c_H + w (c_O + c_E + c_S + c_A)."""
    return Counts(
        random_reads=1.0,
        read_requests=1.0,
        bytes_read=pages.unit_bytes,
        probes=pages.unit_bytes / setting.sizes.v_R,
        appends=w,
        removals=w,
        rows_in=w,
        rows_out=w * setting.output_rows,
        steps=1.0,
    )


def c_loop(setting: Setting, *, pages: PageProfile, w: float) -> float:
    """Seconds of one page: 001 eq 3."""
    return setting.device.seconds(step_work(setting, pages=pages, w=w))


def minimum_memory(setting: Setting) -> float:
    """One page, one row, the index."""
    return setting.page_bytes + setting.index_bytes + setting.hybrid_row_bytes


def predict(
    setting: Setting, M: float, *, unit_bytes: float | None = None, H_t: float | None = None
) -> Prediction:
    """The service rate in M bytes (001 eq 4), with the best disk buffer (001 fig 6) and the H_t that it leaves, or given."""
    need(M, minimum_memory(setting), NAME)
    if unit_bytes is None:
        unit_bytes = best_disk_buffer(setting, M)
    pages = page_profile(setting, unit_bytes=unit_bytes)
    H_t = waiting_rows(setting, M, unit_bytes=unit_bytes) if H_t is None else H_t
    w = steady_state(pages, H_t).w
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=step_work(setting, pages=pages, w=w),
        rows=w,
        memory_bytes=M,
        disk_buffer_bytes=pages.unit_bytes,
        page_bytes=setting.page_bytes,
        waiting_rows=H_t,
        access="lookup",
    )


def best_disk_buffer(setting: Setting, M: float) -> float:
    """The stretch of neighbouring pages, in bytes, that maximises mu; whole pages."""
    most = min(M - setting.index_bytes - setting.hybrid_row_bytes, setting.R_bytes)
    best = maximise(
        lambda unit: predict(setting, M, unit_bytes=unit).rows_per_s,
        float(setting.page_bytes),
        max(float(setting.page_bytes), most),
    )
    return whole_pages(setting, best)


def whole_pages(setting: Setting, unit_bytes: float) -> float:
    return max(1, int(unit_bytes / setting.page_bytes)) * float(setting.page_bytes)


def memory_for(setting: Setting, rate: float) -> float:
    return memory_by_search(predict, setting, rate, minimum_memory(setting))
