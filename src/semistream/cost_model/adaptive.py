"""adaptive, ours: the hottest keys in the cache, the others wait where their keys are in R, and R is swept.

The best of two algorithms on every device: a scan where positioning is dear and many rows wait, lookups of
the needed pages in physical order where many of them can be in flight.
"""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

from semistream.cost_model import front_stage
from semistream.cost_model.pages import PageProfile, page_profile
from semistream.cost_model.prediction import Prediction, memory_by_search, predict_step
from semistream.cost_model.setting import Setting, need
from semistream.cost_model.work import Counts

NAME = "adaptive"
NEEDS_INDEX = True

PAGES_AT_ONCE = 64
SCAN_REQUEST_BYTES = 1 << 20
PARTS = 64  # of R, each served in turn
ROW_OVERHEAD = 1.25  # what a row takes while it waits, of its own bytes: no hash table, no queue; and room to serve a part


def minimum_memory(setting: Setting) -> float:
    """The index, a page, one row, a cache of one key."""
    return setting.index_bytes + setting.page_bytes + setting.mesh_row_bytes + setting.cached_key_bytes


def disk_buffer(setting: Setting, M: float) -> float:
    """Room for the pages that are read at once, but no more than a sixteenth of the memory."""
    return float(max(1, min(PAGES_AT_ONCE, int(M / 16 / setting.page_bytes))) * setting.page_bytes)


def waiting_rows(setting: Setting, M: float, *, h: float) -> float:
    """B: what the index, the disk buffer and the cache leave."""
    left = M - setting.index_bytes - disk_buffer(setting, M) - h * setting.cached_key_bytes
    return max(1.0, left / (ROW_OVERHEAD * setting.sizes.f * setting.sizes.v_S))


def swept_rows(H: float, parts: float) -> float:
    """B, the rows that a room for H rows serves in a sweep of that many parts: 2 H P / (P + 1).

    A part is served when its rows, B / P, have come together over a whole sweep. The others hold 1/P, 2/P, ...
    of as many then, so the room is full with (B / P) (P + 1) / 2 rows.
    """
    return 2 * H * parts / (parts + 1)


def lookup_work(pages: PageProfile, B: float) -> Counts:
    """The pages that B rows need, each once, in physical order, many in flight."""
    stretches = pages.stretches(B)
    return Counts(
        random_reads_overlapped=stretches,
        read_requests=stretches,
        bytes_read=pages.distinct(B) * pages.unit_bytes,
    )


def scan_work(setting: Setting) -> Counts:
    """All of R once."""
    return Counts(
        random_reads=1.0,
        read_requests=max(1.0, setting.R_bytes / SCAN_REQUEST_BYTES),
        bytes_read=setting.R_bytes,
    )


def predict(
    setting: Setting,
    M: float,
    *,
    h: float | None = None,
    H: float | None = None,
    batch_rows: float | None = None,
    parts: float = PARTS,
) -> Prediction:
    """The service rate with the best split between h cached keys and B waiting rows, or a given one; the
    room has H rows, by default what the cache leaves, and B rows are served in a sweep (see `swept_rows`).

    mu = (B + hits) / c_loop,  hits = B p / (1 - p),
    c_loop = min(lookups(B), scan) + B (2 c_H + c_A + c_E + c_S + m c_O) + hits (c_H + c_S + m c_O).
    `batch_rows` bounds B + hits, as a micro-batch does whose rows must not outlast it.
    """
    need(M, minimum_memory(setting), NAME)
    if h is None:
        room = M - setting.index_bytes - disk_buffer(setting, M) - 2 * setting.sizes.v_S
        h = front_stage.best_keys(
            setting,
            room,
            lambda keys: predict(setting, M, h=keys, batch_rows=batch_rows, parts=parts).rows_per_s,
        )
    H = waiting_rows(setting, M, h=h) if H is None else H
    B = max(1.0, swept_rows(H, parts))
    if batch_rows is not None:
        B = max(1.0, min(B, batch_rows * (1 - front_stage.hit_ratio(setting, h))))
    pages = page_profile(setting, cached_keys=h)
    ways = {"lookup": lookup_work(pages, B), "scan": scan_work(setting)}
    access = min(ways, key=lambda way: setting.device.seconds(ways[way]))
    miss = ways[access] + Counts(
        probes=B, appends=B, removals=B, rows_in=B, rows_out=B * setting.output_rows, steps=1.0
    )
    work, rows = front_stage.with_hits(setting, miss, B, h)
    return predict_step(
        algorithm=NAME,
        device=setting.device,
        work=work,
        rows=rows,
        memory_bytes=M,
        disk_buffer_bytes=disk_buffer(setting, M),
        page_bytes=setting.page_bytes,
        waiting_rows=min(B, H),
        access=access,
        **front_stage.cached(setting, M, h),
    )


def memory_for(setting: Setting, rate: float) -> float:
    return memory_by_search(predict, setting, rate, minimum_memory(setting))
