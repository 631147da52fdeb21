"""How often the stream needs each page: a table of like pages, and what a batch of rows makes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semistream.cost_model.frequencies import KeyProfile
from semistream.cost_model.setting import Setting

F64 = npt.NDArray[np.float64]

_SINGLE_PAGES = 64
_BUCKET_GROWTH = 1.04


@dataclass(frozen=True, eq=False)
class PageProfile:
    """`counts[i]` units of R have the stream probability `q[i]` each, the most needed first.

    A unit is what one lookup reads: a page, or a stretch of pages. The sum of counts * q is the share of
    rows that need any unit; `no_read` is the rest, whose keys the index knows to be absent. `between` more units lie
    among these and are needed by nobody, because they are cached.
    """

    counts: F64
    q: F64
    unit_bytes: float
    no_read: float
    clustered: bool
    between: float = 0.0

    @property
    def units(self) -> float:
        return float(self.counts.sum())

    def needed(self, rows: float) -> F64:
        """The probability of each unit that a batch of `rows` rows needs it: 1 - (1 - q)^rows."""
        return -np.expm1(rows * np.log1p(-np.minimum(self.q, 1.0 - 1e-15)))

    def distinct(self, rows: float) -> float:
        """How many units a batch of `rows` rows needs."""
        return float(self.counts @ self.needed(rows))

    def stretches(self, rows: float) -> float:
        """Into how many stretches of neighbours the needed units fall, if they are read in physical order.

        A stretch begins at a needed unit behind one that is not needed, which a cached one is not either. Where hot
        keys are spread, neighbours know nothing of each other, so cached units are spread as well; where they are
        clustered, neighbours are alike, and the cached units are all before the first one.
        """
        needed = self.needed(rows)
        if self.units <= 0:
            return 0.0
        if self.clustered:
            first = needed[np.argmax(self.counts > 0)]
            found = float(
                self.counts @ (needed * (1 - needed)) + first * first
            )  # nothing is before the first one
        else:
            distinct = float(self.counts @ needed)
            found = distinct * (1 - distinct / (self.units + self.between))
        return max(found, min(1.0, float(self.counts @ needed)))

    def top(self, units: float) -> float:
        """The share of rows that the most needed units answer: the best page-level cache of this size."""
        edges = np.concatenate(([0.0], np.cumsum(self.counts)))
        mass = np.concatenate(([0.0], np.cumsum(self.counts * self.q)))
        return float(np.interp(units, edges, mass))

    def without_top(self, units: float) -> PageProfile:
        """For the rows that the most needed units do not answer; probabilities are theirs."""
        left = np.clip(np.cumsum(self.counts) - units, 0.0, self.counts)
        missed = float(left @ self.q) + self.no_read
        scale = 1.0 / missed if missed > 0 else 0.0
        return PageProfile(
            left, self.q * scale, self.unit_bytes, self.no_read * scale, self.clustered, self.between + units
        )


def page_profile(
    setting: Setting, *, unit_bytes: float | None = None, cached_keys: float = 0.0
) -> PageProfile:
    """Of the rows that `cached_keys` hottest keys do not answer; by default a unit is one page.

    Scattered: condition on the hottest key of a unit. A random unit of k among N keys has its hottest key
    beyond rank r with probability (1 - r/N)^k, and its other k - 1 keys are then any of the colder ones. What
    is neglected is how their sum varies, which is small wherever no single key stands out.
    """
    unit_bytes = setting.page_bytes if unit_bytes is None else unit_bytes
    share = 1 - setting.u if setting.index_proves_absence else 1.0
    stream_keys = setting.keys.thinned(share) if share < 1 else setting.keys
    per_unit = max(
        1.0, unit_bytes / setting.sizes.v_R / setting.m * (stream_keys.keys / _master_keys(setting))
    )
    per_unit = min(per_unit, stream_keys.keys)
    if setting.clustered:
        counts, q = _clustered(stream_keys, per_unit, cached_keys * share)
    else:
        counts, q = _scattered(stream_keys.without_top(cached_keys * share), per_unit)
    order = np.argsort(-q, kind="stable")
    # A key whose rows do not fit into what is left of its page goes on in the next one.
    straddling = 1 + (setting.m - 1) * setting.sizes.v_R / unit_bytes
    return PageProfile(
        counts[order], q[order] * share, unit_bytes * straddling, 1.0 - share, setting.clustered
    )


def _master_keys(setting: Setting) -> float:
    return setting.R_t / setting.m


def _scattered(keys: KeyProfile, per_unit: float) -> tuple[F64, F64]:
    n = keys.keys
    beyond = np.power(1.0 - np.minimum(keys.edges / n, 1.0), per_unit)
    counts = n / per_unit * (beyond[:-1] - beyond[1:])
    middle = (keys.edges[:-1] + keys.edges[1:]) / 2
    colder = (1.0 - (keys.mass[:-1] + keys.mass[1:]) / 2) / np.maximum(n - middle, 0.5)
    q = keys.probability + (per_unit - 1.0) * np.minimum(colder, np.maximum(keys.probability, 0.0))
    return counts, q / float(counts @ q)


def _clustered(keys: KeyProfile, per_unit: float, cached_keys: float) -> tuple[F64, F64]:
    units = max(1.0, keys.keys / per_unit)
    edges = [float(i) for i in range(min(_SINGLE_PAGES, int(units)) + 1)]
    while edges[-1] < units:
        edges.append(min(units, max(edges[-1] + 1, edges[-1] * _BUCKET_GROWTH)))
    at = np.array(edges)
    counts = np.diff(at)
    mass = np.maximum(keys.top(at * per_unit) - keys.top(cached_keys), 0.0)
    mass[0] = 0.0
    q = np.diff(mass) / counts
    total = float(counts @ q)
    return counts, (q / total if total > 0 else np.full(counts.size, 1.0 / units))
