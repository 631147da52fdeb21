"""Which keys SSBJ really has in its cache: the inequality is put to counts, and counts vary.

    outside --- n_j v_S > m v_R, counted in two cycles of three ---> cached
            <-- n_j v_S <= m v_R, mean of ten cycles -----------

Theorem 2 speaks of expected numbers of rows. A key that is worth theta = m v_R / v_S waiting rows comes in whenever a
cycle happens to bring more of them, and one that is worth caching stays outside while none does.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from semistream.cost_model.frequencies import KeyProfile

F64 = npt.NDArray[np.float64]

# 003 Algorithm 1, lines 5 to 8.
STATES = 3
EVICTION_CYCLES = 10
# From here on a count is told from its mean by less than 3 %: it is as good as exact.
_COUNT_SURE = 1000


def cached_share(n: F64, theta: float) -> F64:
    """x_j: the share of time that a key is cached which a cycle brings n_j rows of on average.

    Rows of a key come at random, so c cycles bring Poisson(c n_j) of them. Outside, it is judged once in three
    cycles; it has to exceed theta in the incrementing cycle, where it is counted, and again in the switching cycle. So
    it stays outside for 3 / P(N > theta)^2 cycles. (Some come in with less in the first: where counts are many, those that
    are near theta are counted, too.) Inside, it is judged after every tenth cycle by the hits of
    ten whole ones, which begin 5 cycles after it came in on average: it stays for 5 + 10 / P(N_10 <= 10 theta).
    """
    comes = _more_than(theta, n) ** 2
    goes = 1 - _more_than(EVICTION_CYCLES * theta, EVICTION_CYCLES * n)
    outside = STATES / np.maximum(comes, 1e-300)
    inside = EVICTION_CYCLES / 2 + EVICTION_CYCLES / np.maximum(goes, 1e-300)
    return np.asarray(inside / (inside + outside))


def hit_ratio(keys: KeyProfile, h: float, theta: float) -> float:
    """p: the share of rows that h cached keys answer, which are not just the hottest ones.

    h = sum of x_j rises with the rows of a cycle, N in n_j = N p_j. So there is one N for each h, and
    p = sum of x_j p_j.
    """
    if h <= 0:
        return 0.0
    if h >= keys.keys:
        return 1.0
    low, high = -40.0, 80.0  # ln N
    for _ in range(60):
        middle = (low + high) / 2
        cached = float(keys.counts @ cached_share(math.exp(middle) * keys.probability, theta))
        low, high = (middle, high) if cached < h else (low, middle)
    return float((keys.counts * keys.probability) @ cached_share(math.exp(high) * keys.probability, theta))


def _more_than(theta: float, mean: F64) -> F64:
    """P(Poisson(mean) > theta)."""
    if theta >= _COUNT_SURE:
        return np.asarray(mean > theta, np.float64)
    counts = np.arange(math.floor(theta) + 1)
    log_factorial = np.cumsum(np.log(np.maximum(counts, 1)))
    mean = np.maximum(mean, 1e-300)[:, None]
    return np.asarray(np.maximum(1 - np.exp(counts * np.log(mean) - mean - log_factorial).sum(axis=1), 0.0))
