"""What no join can exceed: one that knows every key's probability, and whose memory holds nothing but rows.

- No cache of M bytes can answer a larger share of independent stream rows than the hottest M / v_R rows of R.
- Of the M bytes, h v_R hold the h hottest rows and the rest holds waiting rows of v_S bytes each, without any
  bookkeeping; h is the best there is. The waiting rows are served by whichever costs least on the device:
  single pages at the best moment for each of them, sweeps that pick the pages needed, or sweeps of all of R.

This is a closed form on the cost models' terms (`cost_model`), not a run.
"""

# The papers' symbols keep their case.
# ruff: noqa: N806

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from semistream.cost_model import front_stage
from semistream.cost_model.pages import PageProfile, page_profile
from semistream.cost_model.profiles import DeviceProfile
from semistream.cost_model.search import maximise
from semistream.cost_model.setting import Setting, Sizes
from semistream.cost_model.work import Counts
from semistream.experiments.scenario import Scenario

_HALVINGS = 80


@dataclass(frozen=True, kw_only=True)
class Bound:
    """`hit_ratio` is the best with all memory for the cache; `rows_per_s` with the best split, h keys cached."""

    rows_per_s: float
    hit_ratio: float
    cached_keys: float


@lru_cache(maxsize=1024)
def clairvoyant(scenario: Scenario, device: DeviceProfile) -> Bound:
    bare = Sizes(
        v_S=scenario.stream_row_bytes, v_R=scenario.row_bytes, v_P=0.0, v_Q=0.0, recorder=0.0, absent=1.0, fence=0.0
    )  # fmt: skip
    setting, M = scenario.setting(device, bare), float(scenario.memory_bytes)
    most = min(setting.keys.keys, M / setting.cached_key_bytes)

    def rate(h: float) -> float:
        waiting = max(1.0, (M - h * setting.cached_key_bytes) / setting.sizes.v_S)
        return _rate(setting, h, waiting)

    best = max((0.0, maximise(rate, min(1.0, most / 2), most)), key=rate)
    return Bound(rows_per_s=rate(best), hit_ratio=float(setting.keys.top(most)), cached_keys=best)


def _rate(setting: Setting, h: float, waiting: float) -> float:
    pages = page_profile(setting, cached_keys=h)
    # A place is taken again as soon as its row left, so rows wait half a sweep: a sweep serves twice as many.
    swept = 2 * waiting
    picked = Counts(
        random_reads_overlapped=pages.stretches(swept),
        read_requests=pages.stretches(swept),
        bytes_read=pages.distinct(swept) * pages.unit_bytes,
    )
    whole = Counts(random_reads=1.0, read_requests=1.0, bytes_read=setting.R_bytes)
    loads = loads_per_row(pages, waiting)
    single = Counts(random_reads_overlapped=loads, read_requests=loads, bytes_read=loads * pages.unit_bytes)
    reads_s = min(
        setting.device.seconds(single),
        setting.device.seconds(picked) / swept,
        setting.device.seconds(whole) / swept,
    )
    row = Counts(appends=1.0, removals=1.0, rows_in=1.0, rows_out=setting.output_rows)
    # Who caches nothing looks nothing up.
    work, rows = front_stage.with_hits(setting, row, 1.0, h) if h > 0 else (row, 1.0)
    return rows / (setting.device.seconds(work) + reads_s)


def loads_per_row(pages: PageProfile, waiting: float) -> float:
    """The fewest pages read for each stream row if `waiting` rows may wait at a time, each page having its own patience.

    A page with probability q that is read A rows after the first row that wants it is read q / (1 + q A) times per
    row, while q A (1 + q A / 2) / (1 + q A) rows wait for it on average. Minimising the sum of the one under the
    sum of the other gives q / (1 + q A + (q A)^2 / 2) = l for every page with q > l, and A = 0 for those below.
    """
    q, counts = pages.q, pages.counts

    def patience(level: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.sqrt(np.maximum(2 * q / level - 1, 1.0)) - 1.0  # q A

    low, high = 1e-18, float(q.max())
    for _ in range(_HALVINGS):
        level = math.sqrt(low * high)
        qa = patience(level)
        waits = float(counts @ (qa * (1 + qa / 2) / (1 + qa)))
        low, high = (level, high) if waits > waiting else (low, level)
    return float(counts @ (q / (1 + patience(high))))
