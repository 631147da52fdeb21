"""The partition-based join: rows wait in their partition's slots, and a partition is read when these are full.

The papers only describe it (003 sect. 2.3, 000 sect. 2). Symbols here: V bytes a partition, tau slots for each.
"""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

import math

from semistream.cost_model.pages import PageProfile, page_profile
from semistream.cost_model.prediction import Prediction, memory_by_search, predict_step
from semistream.cost_model.search import maximise
from semistream.cost_model.setting import Setting, need
from semistream.cost_model.work import Counts

NAME = "partitioned"
NEEDS_INDEX = True


def partitions(setting: Setting, V: float) -> float:
    return max(1.0, setting.R_bytes / V)


def slots(setting: Setting, M: float, *, V: float, cached_pages: float = 0.0) -> float:
    """tau: the rest of the memory beside the partition being read, the cache and the partitions' bounds."""
    count = partitions(setting, V)
    left = M - V - count * setting.sizes.fence - cached_pages * setting.page_bytes
    return max(0.0, left / (count * setting.mesh_row_bytes))


def minimum_memory(setting: Setting) -> float:
    """One slot for each partition: V + (R / V)(slot + bound), lowest at V^2 = R (slot + bound)."""
    per_partition = setting.mesh_row_bytes + setting.sizes.fence
    V = min(max(float(setting.page_bytes), math.sqrt(setting.R_bytes * per_partition)), setting.R_bytes)
    return V + partitions(setting, V) * per_partition + setting.page_bytes


def predict(
    setting: Setting, M: float, *, V: float | None = None, cached_pages: float | None = None
) -> Prediction:
    """The service rate with the best partition size and page cache, or given ones.

    Slots are set aside for each partition, so every read of V bytes serves tau rows, whatever the skew:
    1 / mu = c_S + c_H + m c_O + (1 - p)(c_A + c_E + c_H + (c_IO(V) + (V / v_R) c_H) / tau). How long a
    row waits for its partition to fill up is not bounded.
    """
    need(M, minimum_memory(setting), NAME)
    pages = page_profile(setting)

    def tuned(V: float) -> Prediction:
        if cached_pages is not None:
            return _predict(setting, M, pages, V, cached_pages)
        room = M - V - partitions(setting, V) * (setting.sizes.fence + setting.mesh_row_bytes)
        most = min(pages.units, max(0.0, room) / setting.page_bytes)
        best = maximise(lambda c: _predict(setting, M, pages, V, c).rows_per_s, min(1.0, most / 2), most)
        both = (_predict(setting, M, pages, V, count) for count in (0.0, best))
        return max(both, key=lambda found: found.rows_per_s)

    if V is None:
        V = maximise(
            lambda size: tuned(size).rows_per_s,
            float(min(setting.page_bytes, M / 2)),
            min(setting.R_bytes, M / 2),
        )
    return tuned(V)


def _predict(setting: Setting, M: float, pages: PageProfile, V: float, cached_pages: float) -> Prediction:
    tau = slots(setting, M, V=V, cached_pages=cached_pages)
    # A partition without a slot cannot take a row at all: as slow as a read of it for a fraction of a row.
    p = min(pages.top(cached_pages), 1 - 1e-9)
    hits = tau * p / (1 - p)
    work = Counts(
        random_reads=1.0,
        read_requests=1.0,
        bytes_read=V,
        probes=V / setting.sizes.v_R + hits + 2 * tau,
        appends=tau,
        removals=tau,
        rows_in=hits + tau,
        rows_out=(hits + tau) * setting.output_rows,
        steps=1.0,
    )
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=hits + tau,
        memory_bytes=M,
        disk_buffer_bytes=V,
        page_bytes=setting.page_bytes,
        cache_rows=cached_pages * setting.page_bytes / setting.sizes.v_R,
        cache_share=cached_pages * setting.page_bytes / M,
        waiting_rows=tau * partitions(setting, V),
        hit_ratio=pages.top(cached_pages),
        access="lookup",
    )


def memory_for(setting: Setting, rate: float) -> float:
    return memory_by_search(predict, setting, rate, minimum_memory(setting))
