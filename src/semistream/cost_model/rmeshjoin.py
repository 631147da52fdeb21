"""R-MESHJOIN: MESHJOIN whose stream chunk comes every few segments, so that b can be chosen for the disk alone.

The papers at hand only name it. Here a chunk of x stream rows enters every j segments and stays until it met
all k, so ceil(k / j) chunks wait at once. With j = 1 it is MESHJOIN; with j > 1 it pays for coarser chunks with
at most one chunk more than MESHJOIN would hold, and gains where a chunk has a cost of its own.
"""

# The papers' symbols keep their case.
# ruff: noqa: N803

from __future__ import annotations

import math

from semistream.cost_model import meshjoin
from semistream.cost_model.prediction import Prediction, predict_step
from semistream.cost_model.setting import Setting, need

NAME = "rmeshjoin"
NEEDS_INDEX = False


def memory(setting: Setting, *, b: float, x: float, j: float = 1.0) -> float:
    """M = b v_R + x ceil(k / j) (v_P + f v_S), for chunks of x rows; not rounded where a chunk is one segment."""
    chunks = setting.R_t / b if j == 1 else math.ceil(setting.R_t / b / j)
    return b * setting.sizes.v_R + x * chunks * setting.mesh_row_bytes


def minimum_memory(setting: Setting) -> float:
    return meshjoin.minimum_memory(setting)


def predict(
    setting: Setting, M: float, *, b: float | None = None, j: float = 1.0, H_t: float | None = None
) -> Prediction:
    """The rate with chunks of j segments: mu = x / (j (c_IO(b) + b c_H) + x (c_E + c_S + c_A + c_O)); with room for
    the rows that memory leaves, or for H_t."""
    need(M, minimum_memory(setting), NAME)
    b = meshjoin.best_disk_buffer(setting, M) if b is None else b
    left = max(0.0, M - b * setting.sizes.v_R) if H_t is None else H_t * setting.mesh_row_bytes
    x = left / (memory(setting, b=b, x=1.0, j=j) - b * setting.sizes.v_R)
    work = j * meshjoin.segment_work(setting, b=b) + x * meshjoin.row_work(setting)
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=x,
        memory_bytes=M,
        disk_buffer_bytes=b * setting.sizes.v_R,
        page_bytes=setting.page_bytes,
        waiting_rows=left / setting.mesh_row_bytes,
    )


def memory_for(setting: Setting, rate: float) -> float:
    return meshjoin.memory_for(setting, rate)
