"""Seeded Zipf-distributed keys over up to 2^40 keys, without any table as large as the key set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from semistream.errors import ConfigError

KEYS_MAX = 1 << 40
EXPONENT_MAX = 20.0
_PERMUTATION_ROUNDS = 3
# The first terms of the normalising sum are added one by one; Euler-Maclaurin takes the rest, whose
# relative error from here on is below 1e-15 for every exponent we accept.
_SUMMED_TERMS = 4096

Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class ZipfConfig:
    """A key distribution: rank r = 0, 1, ... of `keys` has a probability proportional to (r+1)^-exponent.

    Parameters
    ----------
    keys: how many distinct keys, 1 to 2^40.
    exponent: skew; 0 is uniform, 1 the classic Zipf law.
    seed: decides both the draws and which key gets which rank.
    scattered: True gives every rank a pseudo-random key, so that hot keys are spread over the key
        range; False makes the key equal to the rank, so that hot keys are neighbours.
    """

    keys: int
    exponent: float = 1.0
    seed: int = 0
    scattered: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.keys <= KEYS_MAX:
            raise ConfigError(
                f"a Zipf distribution needs 1 to 2^40 keys, got {self.keys}",
                hint="pass the number of distinct keys of the master table",
            )
        if not 0.0 <= self.exponent <= EXPONENT_MAX:
            raise ConfigError(
                f"the Zipf exponent must lie between 0 and {EXPONENT_MAX:g}, got {self.exponent}",
                hint="0 draws all keys equally often, 1 is the classic skew",
            )
        if self.seed < 0:
            raise ConfigError(f"the seed must not be negative, got {self.seed}", hint="use 0, 1, 2, ...")


class ZipfKeys:
    """Draws keys; batch number b is the same whenever and in whatever order it is drawn.

    Costs about 50 ns a key and memory for the batch alone: ranks come from rejection-inversion, and
    a keyed bijection (not a shuffled array) turns ranks into keys.

    >>> stream = ZipfKeys(ZipfConfig(keys=1_000_000, seed=7))
    >>> bool((stream.keys(batch=3, rows=5) == stream.keys(batch=3, rows=5)).all())
    True
    >>> round(stream.top_probability(50_000), 3)
    0.792

    W. Hoermann, G. Derflinger: Rejection-inversion to generate variates from monotone discrete
    distributions, ACM TOMACS 6(3), 1996.
    """

    def __init__(self, config: ZipfConfig) -> None:
        self.config = config
        self._bits = max(1, (config.keys - 1).bit_length())
        self._round_keys = _round_keys(config.seed, self._bits)
        self._inverse_round_keys = _inverse_round_keys(self._round_keys, self._bits)
        self._weight_sum = _power_sum(config.keys, config.exponent)

    def ranks(self, *, batch: int, rows: int) -> Int64s:
        """The ranks (0 = hottest) of one batch."""
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.config.seed, batch])))
        out = np.empty(rows, dtype=np.int64)
        _draw_ranks(random, self.config.keys, self.config.exponent, out)
        return out

    def keys(self, *, batch: int, rows: int) -> Int64s:
        """The keys, in 0 .. keys-1, of one batch."""
        return self.keys_of(self.ranks(batch=batch, rows=rows))

    def batches(self, *, rows: int, first: int = 0) -> Iterator[Int64s]:
        """Batches of keys without end, from number `first` on."""
        batch = first
        while True:
            yield self.keys(batch=batch, rows=rows)
            batch += 1

    def keys_of(self, ranks: Int64s) -> Int64s:
        """The key of every rank; a bijection on 0 .. keys-1."""
        if not self.config.scattered:
            return ranks.copy()
        return _permute(ranks, self.config.keys, self._bits, self._round_keys)

    def ranks_of(self, keys: Int64s) -> Int64s:
        """The rank of every key: the inverse of `keys_of`."""
        if not self.config.scattered:
            return keys.copy()
        return _unpermute(keys, self.config.keys, self._bits, self._inverse_round_keys)

    def probabilities(self, ranks: Int64s) -> NDArray[np.float64]:
        """The probability that one drawn row has this rank."""
        return np.power(ranks + 1.0, -self.config.exponent, dtype=np.float64) / self._weight_sum

    def top_probability(self, k: int) -> float:
        """The probability that a drawn row has one of the k hottest keys (relative error below 1e-12).

        This is the hit ratio of the best cache of k rows that does not know the future.
        """
        if k <= 0:
            return 0.0
        if k >= self.config.keys:
            return 1.0
        return _power_sum(k, self.config.exponent) / self._weight_sum


def _power_sum(n: int, exponent: float) -> float:
    """sum of i^-exponent for i = 1 .. n."""
    head = min(n, _SUMMED_TERMS)
    total = math.fsum(float(i) ** -exponent for i in range(1, head + 1))
    if n == head:
        return total
    return total + _euler_maclaurin(n, exponent) - _euler_maclaurin(head, exponent)


def _euler_maclaurin(x: float, exponent: float) -> float:
    """The antiderivative of i^-exponent plus the first correction terms, up to a constant."""
    s = exponent
    power = float(x) ** -s
    return (
        _h_integral(float(x), s) + power / 2 - s * power / x / 12 + s * (s + 1) * (s + 2) * power / x**3 / 720
    )


def _round_keys(seed: int, bits: int) -> UInt64s:
    """One odd multiplier and one addend a round."""
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 0x5EED])))
    mask = (1 << bits) - 1
    drawn = random.integers(0, 1 << 63, size=(_PERMUTATION_ROUNDS, 2), dtype=np.uint64)
    pairs = [[(int(a) | 1) & mask, int(b) & mask] for a, b in drawn]
    return np.array(pairs, dtype=np.uint64)


def _inverse_round_keys(round_keys: UInt64s, bits: int) -> UInt64s:
    """The rounds in reverse order, each multiplier replaced by its inverse modulo 2^bits."""
    pairs = [[pow(int(a), -1, 1 << bits), int(b)] for a, b in round_keys[::-1]]
    return np.array(pairs, dtype=np.uint64)


@njit(cache=True, nogil=True)
def _h_integral(x: float, s: float) -> float:
    """(x^(1-s) - 1) / (1-s), continued by log(x) at s = 1."""
    log_x = math.log(x)
    t = (1.0 - s) * log_x
    if abs(t) < 1e-8:
        return log_x * (1.0 + t / 2.0)
    return log_x * math.expm1(t) / t


@njit(cache=True, nogil=True)
def _h_integral_inverse(y: float, s: float) -> float:
    t = (1.0 - s) * y
    if abs(t) < 1e-8:
        return math.exp(y * (1.0 - t / 2.0))
    # Rounding may push t below its limit -1, where x would be infinite.
    return math.exp(y * math.log1p(max(t, -1.0 + 1e-16)) / t)


@njit(cache=True, nogil=True)
def _draw_ranks(random: np.random.Generator, keys: int, s: float, out: Int64s) -> None:
    """Rejection-inversion: invert the integral of the density's hat, accept almost always."""
    low = _h_integral(1.5, s) - 1.0
    high = _h_integral(keys + 0.5, s)
    sure = 2.0 - _h_integral_inverse(_h_integral(2.5, s) - math.exp(-s * math.log(2.0)), s)
    for i in range(out.size):
        while True:
            u = high + random.random() * (low - high)
            x = _h_integral_inverse(u, s)
            k = min(max(int(x + 0.5), 1), keys)
            if k - x <= sure or u >= _h_integral(k + 0.5, s) - math.exp(-s * math.log(k)):
                out[i] = k - 1
                break


@njit(cache=True, nogil=True)
def _permute(values: Int64s, keys: int, bits: int, round_keys: UInt64s) -> Int64s:
    """Multiply-xorshift rounds, a bijection on 2^bits, repeated until the value is below `keys`.

    Walking along the cycle this way keeps the map a bijection on 0 .. keys-1; as 2^bits < 2 * keys
    it takes fewer than two steps on average.
    """
    mask = np.uint64((1 << bits) - 1)
    shift = np.uint64((bits + 1) // 2)
    limit = np.uint64(keys)
    out = np.empty(values.size, dtype=np.int64)
    for i in range(values.size):
        v = np.uint64(values[i])
        while True:
            for r in range(round_keys.shape[0]):
                v = (v * round_keys[r, 0] + round_keys[r, 1]) & mask
                v ^= v >> shift
            if v < limit:
                break
        out[i] = np.int64(v)
    return out


@njit(cache=True, nogil=True)
def _unpermute(values: Int64s, keys: int, bits: int, inverse_round_keys: UInt64s) -> Int64s:
    mask = np.uint64((1 << bits) - 1)
    shift = np.uint64((bits + 1) // 2)
    limit = np.uint64(keys)
    out = np.empty(values.size, dtype=np.int64)
    for i in range(values.size):
        v = np.uint64(values[i])
        while True:
            for r in range(inverse_round_keys.shape[0]):
                # The shift is at least half the width, so this xorshift is its own inverse.
                v ^= v >> shift
                v = ((v - inverse_round_keys[r, 1]) * inverse_round_keys[r, 0]) & mask
            if v < limit:
                break
        out[i] = np.int64(v)
    return out
