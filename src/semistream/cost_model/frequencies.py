"""How often the stream asks for each key, in a few hundred numbers: ranks in buckets of like probability."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from semistream.errors import ConfigError
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

F64 = npt.NDArray[np.float64]

# The hottest ranks one by one, then buckets that widen: within one, probabilities differ by 4 % at skew 1,
# and sums over keys are right to about one part in a thousand.
_SINGLE_RANKS = 256
_BUCKET_GROWTH = 1.04


@dataclass(frozen=True, eq=False)
class KeyProfile:
    """`counts[i]` keys have the stream probability `probability[i]` each, the hottest first; they sum to 1.

    Counts may be fractions (a share of a bucket). Keys that are never asked for come last, with probability 0.

    >>> profile = zipf_profile(1_000_000, 1.0)
    >>> round(float(profile.top(50_000)), 3)
    0.792
    """

    counts: F64
    probability: F64
    edges: F64
    """Ranks at which buckets begin, and the last ends: 0 .. keys."""
    mass: F64
    """The probability of all keys before each edge."""

    @classmethod
    def of(cls, counts: F64, probability: F64) -> KeyProfile:
        edges = np.concatenate(([0.0], np.cumsum(counts)))
        mass = np.concatenate(([0.0], np.cumsum(counts * probability)))
        if not mass[-1] > 0:
            # Nothing is left that anyone asks for, such as behind the top of an extreme skew: any key is as good.
            return cls(edges[-1:], 1.0 / edges[-1:], np.array([0.0, edges[-1]]), np.array([0.0, 1.0]))
        return cls(counts, probability / mass[-1], edges, mass / mass[-1])

    @property
    def keys(self) -> float:
        return float(self.edges[-1])

    def top(self, keys: float | F64) -> F64:
        """The probability that a row has one of the hottest `keys` keys: p_N(h) of 004, eq 1."""
        return np.asarray(np.interp(keys, self.edges, self.mass))

    def hotter_than(self, probability: float) -> float:
        """How many keys have more than this probability; fractional, so that it is smooth where they differ."""
        if probability >= self.probability[0]:
            return 0.0
        middles = (self.edges[:-1] + self.edges[1:]) / 2
        return float(np.interp(-probability, -self.probability, middles, left=0.0, right=self.keys))

    def without_top(self, keys: float) -> KeyProfile:
        """The stream of those rows that the `keys` hottest keys do not answer; these come last, with 0."""
        if keys <= 0:
            return self
        if keys >= self.keys:
            return KeyProfile.of(np.array([self.keys]), np.array([1.0 / self.keys]))
        bucket = int(np.searchsorted(self.edges, keys, side="right")) - 1
        counts = self.counts[bucket:].copy()
        counts[0] = self.edges[bucket + 1] - keys
        return KeyProfile.of(np.append(counts, keys), np.append(self.probability[bucket:], 0.0))

    def thinned(self, share: float) -> KeyProfile:
        """The same stream over a share of its keys, chosen without regard to how hot they are."""
        return KeyProfile.of(self.counts * share, self.probability)


@lru_cache(maxsize=64)
def zipf_profile(keys: int, exponent: float) -> KeyProfile:
    """The r-th hottest of `keys` keys has a probability proportional to r^-exponent."""
    zipf = ZipfKeys(ZipfConfig(keys=keys, exponent=exponent))
    if exponent == 0.0:
        return KeyProfile.of(np.array([float(keys)]), np.array([1.0 / keys]))
    singles = min(keys, _SINGLE_RANKS)
    head = zipf.probabilities(np.arange(singles))
    edges = _widening_edges(singles, keys)
    widths = np.diff(edges)
    # The integral of x^-s over half a rank more on both sides is the sum over the ranks but for a millionth, here
    # where ranks are in the hundreds; the exact closed sum says how much all of them have together.
    integral = _power_integrals(edges + 0.5, exponent)
    tail_mass = max(0.0, 1.0 - zipf.top_probability(singles))
    tail = np.minimum(tail_mass * integral / max(float(integral.sum()), 1e-300) / widths, head[-1])
    return KeyProfile.of(np.concatenate((np.ones(singles), widths)), np.concatenate((head, tail)))


def _widening_edges(first: int, last: int) -> F64:
    edges = [first]
    while edges[-1] < last:
        edges.append(min(last, max(edges[-1] + 1, int(edges[-1] * _BUCKET_GROWTH))))
    return np.array(edges, dtype=np.float64)


def _power_integrals(x: F64, exponent: float) -> F64:
    """The integrals of x^-s between neighbours, up to a factor. No differences of large numbers, so none is negative."""
    wide = np.log(x[1:] / x[:-1])
    t = (1.0 - exponent) * wide
    relative = wide * np.where(np.abs(t) < 1e-8, 1.0, np.expm1(t) / np.where(t == 0, 1.0, t))
    return np.asarray(np.exp((1.0 - exponent) * np.log(x[:-1] / x[0])) * relative)


def profile_of_counts(counts: npt.NDArray[np.int64]) -> KeyProfile:
    """From how often each key was seen, the keys in any order."""
    seen = np.asarray(counts)
    if seen.size == 0 or seen.min() < 0 or seen.max() <= 0:
        raise ConfigError(
            f"a frequency profile needs counts of keys, got {seen.size} of them, none positive or some negative.",
            hint="pass how often each key was seen, at least one of them once.",
        )
    values, keys = np.unique(seen, return_counts=True)
    return KeyProfile.of(keys[::-1].astype(np.float64), values[::-1].astype(np.float64))
