"""The partition-based join: rows wait in their partition's slot, and the partition with the fullest slot is read.

The papers only describe it (003 sect. 2.3, 000 sect. 2). Symbols here: V bytes a partition, P of them, H rows that
wait in all slots together.
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


def waiting_rows(setting: Setting, M: float, *, V: float, cached_pages: float = 0.0) -> float:
    """H: the rest of the memory beside the partition being read, the cache and the partitions' bounds."""
    left = M - V - partitions(setting, V) * setting.sizes.fence - cached_pages * setting.page_bytes
    return max(1.0, left / setting.mesh_row_bytes)


def rows_per_read(H: float, P: float) -> float:
    """How many rows a read of the fullest slot serves where all P slots share room for H rows.

    A slot that is read at L rows begins again at none, and passes through 0 .. L - 1 one row at a time. So at a
    moment when another slot is read, it has each of these with the same probability, whatever its rate is:
    only how fast it goes through them differs. Before a read the room is full: L + (P - 1)(L - 1) / 2 = H, so

        L = (2 H + P - 1) / (P + 1),

    twice what a slot's fixed share of the room would be (once, if P is 1). Rows are whole: between a and a + 1, the
    share f = L - a of the slots is read at a + 1, the others at a, and of the rows each group brings as many as its
    share of slots: 1 / rows_per_read = (1 - f) / a + f / (a + 1).
    """
    L = max(1.0, (2 * H + P - 1) / (P + 1))
    a = math.floor(L)
    f = L - a
    return 1 / ((1 - f) / a + f / (a + 1))


def minimum_memory(setting: Setting) -> float:
    """The bounds of all partitions, and one to read into: V + (R / V) bound, lowest at V^2 = R bound; a cached page and
    a row."""
    bound = setting.sizes.fence
    V = min(max(float(setting.page_bytes), math.sqrt(setting.R_bytes * bound)), setting.R_bytes)
    return V + partitions(setting, V) * bound + setting.page_bytes + setting.mesh_row_bytes


def predict(
    setting: Setting,
    M: float,
    *,
    V: float | None = None,
    cached_pages: float | None = None,
    H: float | None = None,
) -> Prediction:
    """The service rate with the best partition size and page cache, or given ones; H likewise.

    With L = rows_per_read(H, P), whatever the skew,
    1 / mu = c_S + c_H + m c_O + (1 - p)(c_A + c_E + (c_IO(V) + (V / v_R) c_H) / L). How long a row of a
    rare partition waits is not bounded.
    """
    need(M, minimum_memory(setting), NAME)
    pages = page_profile(setting)

    def tuned(V: float) -> Prediction:
        if cached_pages is not None:
            return _predict(setting, M, pages, V, cached_pages, H)
        room = M - V - partitions(setting, V) * setting.sizes.fence - setting.mesh_row_bytes
        most = min(pages.units, max(0.0, room) / setting.page_bytes)
        best = maximise(lambda c: _predict(setting, M, pages, V, c, H).rows_per_s, min(1.0, most / 2), most)
        both = (_predict(setting, M, pages, V, count, H) for count in (0.0, best))
        return max(both, key=lambda found: found.rows_per_s)

    if V is None:
        V = maximise(
            lambda size: tuned(size).rows_per_s,
            float(min(setting.page_bytes, M / 2)),
            min(setting.R_bytes, M / 2),
        )
    return tuned(V)


def _predict(
    setting: Setting, M: float, pages: PageProfile, V: float, cached_pages: float, H: float | None
) -> Prediction:
    H = waiting_rows(setting, M, V=V, cached_pages=cached_pages) if H is None else H
    served = rows_per_read(H, partitions(setting, V))
    p = min(pages.top(cached_pages), 1 - 1e-9)
    hits = served * p / (1 - p)
    work = Counts(
        random_reads=1.0,
        read_requests=1.0,
        bytes_read=V,
        probes=V / setting.sizes.v_R + hits + served,
        appends=served,
        removals=served,
        rows_in=hits + served,
        rows_out=(hits + served) * setting.output_rows,
        steps=1.0,
    )
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=hits + served,
        memory_bytes=M,
        disk_buffer_bytes=V,
        page_bytes=setting.page_bytes,
        cache_rows=cached_pages * setting.page_bytes / setting.sizes.v_R,
        cache_share=cached_pages * setting.page_bytes / M,
        waiting_rows=H,
        hit_ratio=pages.top(cached_pages),
        access="lookup",
    )


def memory_for(setting: Setting, rate: float) -> float:
    return memory_by_search(predict, setting, rate, minimum_memory(setting))
