"""adaptive, ours: the hottest keys in the cache, B rows wait together, and R is read for them as is cheaper.

The best of two algorithms on every device: a scan where positioning is dear and B is large, lookups of
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


def minimum_memory(setting: Setting) -> float:
    """The index, a page, one row, a cache of one key."""
    return setting.index_bytes + setting.page_bytes + setting.mesh_row_bytes + setting.cached_key_bytes


def disk_buffer(setting: Setting, M: float) -> float:
    """Room for the pages that are read at once, but no more than a sixteenth of the memory."""
    return float(max(1, min(PAGES_AT_ONCE, int(M / 16 / setting.page_bytes))) * setting.page_bytes)


def waiting_rows(setting: Setting, M: float, *, h: float) -> float:
    """B: what the index, the disk buffer and the cache leave."""
    left = M - setting.index_bytes - disk_buffer(setting, M) - h * setting.cached_key_bytes
    return max(1.0, left / setting.mesh_row_bytes)


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
    refill: bool = False,
) -> Prediction:
    """The service rate with the best split between h cached keys and B waiting rows, or a given one; the
    room has H rows, by default what the cache leaves, and B rows are answered together.

    mu = (B + hits) / c_loop,  hits = B p / (1 - p),
    c_loop = min(lookups(B), scan) + B (2 c_H + c_A + c_E + c_S + m c_O) + hits (c_H + c_S + m c_O).
    `batch_rows` bounds B + hits, as a micro-batch does whose rows must not outlast it.

    `refill`: the place of a row is taken by the next one as soon as its page was read, while R is swept from
    end to end again and again. Rows then wait half a sweep on average, so a room of H rows serves 2 H
    a sweep; a room that is filled and then drained is half empty on average and serves H.
    """
    need(M, minimum_memory(setting), NAME)
    if h is None:
        room = M - setting.index_bytes - disk_buffer(setting, M) - setting.mesh_row_bytes
        h = front_stage.best_keys(
            setting,
            room,
            lambda keys: predict(setting, M, h=keys, batch_rows=batch_rows, refill=refill).rows_per_s,
        )
    H = waiting_rows(setting, M, h=h) if H is None else H
    B = 2 * H if refill else H
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
