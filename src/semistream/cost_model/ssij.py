"""SSIJ: a cache of whole pages, and a stream buffer whose rows are answered together once it is full.

The papers have no cost model of it (003 sect. 2.3 says there is none); this one follows their description.
"""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

from semistream.cost_model.pages import PageProfile, page_profile
from semistream.cost_model.prediction import Prediction, memory_by_search, predict_step
from semistream.cost_model.search import maximise
from semistream.cost_model.setting import Setting, need
from semistream.cost_model.work import Counts

NAME = "ssij"
NEEDS_INDEX = True


def minimum_memory(setting: Setting) -> float:
    """A page to read into, a cached page, one row, the index."""
    return 2 * setting.page_bytes + setting.index_bytes + setting.mesh_row_bytes


def predict(
    setting: Setting, M: float, *, cached_pages: float | None = None, B: float | None = None
) -> Prediction:
    """The service rate with the best number of cached pages, or a given one; B likewise.

    The pages with the highest utility are those that most rows need. B rows fill the buffer; the join phase
    reads the n(B) pages they need in physical order, one positioning for each stretch, and empties it. A stretch ends
    where the next page is not needed, as a cached one never is.
    """
    need(M, minimum_memory(setting), NAME)
    pages = page_profile(setting)
    if cached_pages is None:
        most = (M - minimum_memory(setting)) / setting.page_bytes + 1
        cached_pages = maximise(
            lambda count: _predict(setting, M, pages, count, B).rows_per_s,
            1.0,
            min(most, pages.units),
            points=20,
        )
    return _predict(setting, M, pages, cached_pages, B)


def _predict(
    setting: Setting, M: float, pages: PageProfile, cached_pages: float, B: float | None
) -> Prediction:
    left = M - setting.index_bytes - (1 + cached_pages) * setting.page_bytes
    B = max(1.0, left / setting.mesh_row_bytes) if B is None else B
    p = min(pages.top(cached_pages), 1 - 1e-9)
    missed = pages.without_top(cached_pages)
    stretches = missed.stretches(B)
    hits = B * p / (1 - p)
    work = Counts(
        random_reads=stretches,
        read_requests=stretches,
        bytes_read=missed.distinct(B) * missed.unit_bytes,
        probes=hits + 2 * B,
        appends=B,
        removals=B,
        rows_in=hits + B,
        rows_out=(hits + B) * setting.output_rows,
        steps=1.0,
    )
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=hits + B,
        memory_bytes=M,
        disk_buffer_bytes=float(setting.page_bytes),
        page_bytes=setting.page_bytes,
        cache_rows=cached_pages * setting.page_bytes / setting.sizes.v_R,
        cache_share=cached_pages * setting.page_bytes / M,
        waiting_rows=B,
        hit_ratio=pages.top(cached_pages),
        access="lookup",
    )


def memory_for(setting: Setting, rate: float) -> float:
    return memory_by_search(predict, setting, rate, minimum_memory(setting))
