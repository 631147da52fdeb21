"""INLJ: each stream row reads its own page through the index."""

# The papers' symbols keep their case.
# ruff: noqa: N803

from __future__ import annotations

import math

from semistream.cost_model.pages import page_profile
from semistream.cost_model.prediction import Prediction, check_rate, predict_step
from semistream.cost_model.setting import Setting, need
from semistream.cost_model.work import Counts

NAME = "inlj"
NEEDS_INDEX = True


def minimum_memory(setting: Setting) -> float:
    """One page, the index, one row."""
    return setting.page_bytes + setting.index_bytes + setting.sizes.v_S


def step_work(setting: Setting, *, cached_keys: float = 0.0) -> Counts:
    """One row: c_IO(page) + (page / v_R) c_H + c_S + c_A + c_E + m c_O. Where the index proves a key absent, no page is
    read.

    001 sect. 3 and 000 sect. 3.3 describe it in words only. Here it is HYBRIDJOIN with room for one row: the row
    is put into H_S, all rows of the page are looked up there, and it leaves. Reading takes far longer.
    """
    pages = page_profile(setting, cached_keys=cached_keys)
    reads = 1.0 - pages.no_read
    return Counts(
        random_reads=reads,
        read_requests=reads,
        bytes_read=reads * pages.unit_bytes,
        probes=reads * pages.unit_bytes / setting.sizes.v_R,
        appends=1.0,
        removals=1.0,
        rows_in=1.0,
        rows_out=setting.output_rows,
        steps=1.0,
    )


def predict(setting: Setting, M: float) -> Prediction:
    """More memory than the minimum is of no use to it."""
    need(M, minimum_memory(setting), NAME)
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=step_work(setting),
        rows=1.0,
        memory_bytes=M,
        disk_buffer_bytes=float(setting.page_bytes),
        page_bytes=setting.page_bytes,
        waiting_rows=1.0,
        access="lookup",
    )


def memory_for(setting: Setting, rate: float) -> float:
    check_rate(rate)
    minimum = minimum_memory(setting)
    return minimum if predict(setting, minimum).rows_per_s >= rate else math.inf
