"""One-dimensional searches that all models share: the maximum of a curve, and where a rising curve crosses."""

from __future__ import annotations

import math
from collections.abc import Callable

_GOLDEN = (math.sqrt(5) - 1) / 2


def maximise(
    value: Callable[[float], float], low: float, high: float, *, points: int = 14, refinements: int = 10
) -> float:
    """Where `value` is highest in [low, high], low > 0: a geometric grid, then a golden section around its best.

    The grid is there because a curve may rise again at its end, as where the whole table fits into memory.
    The section closes in to about 1 % of the grid's spacing, where a smooth maximum is flat.
    """
    if not 0 < low < high:
        return low
    ratio = (high / low) ** (1 / (points - 1))
    grid = [low * ratio**i for i in range(points - 1)] + [high]
    values = [value(x) for x in grid]
    best = max(range(points), key=values.__getitem__)
    left, right = math.log(grid[max(best - 1, 0)]), math.log(grid[min(best + 1, points - 1)])
    a, b = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    at_a, at_b = value(math.exp(a)), value(math.exp(b))
    for _ in range(refinements):
        if at_a >= at_b:
            right, b, at_b = b, a, at_a
            a = right - _GOLDEN * (right - left)
            at_a = value(math.exp(a))
        else:
            left, a, at_a = a, b, at_b
            b = left + _GOLDEN * (right - left)
            at_b = value(math.exp(b))
    refined, found = max((at_a, math.exp(a)), (at_b, math.exp(b)))
    return found if refined > values[best] else grid[best]


def crossing(
    value: Callable[[float], float], target: float, low: float, high: float, *, tolerance: float = 1e-6
) -> float:
    """The x in [low, high], both positive, from which on a rising `value` is at least `target`.

    Between logarithms: false position, which needs few evaluations of a smooth curve, every other step
    halving, which is safe with any. `low` if the curve is there already, `high` if it never gets there.
    """
    at_low, at_high = value(low), value(high)
    if at_low >= target:
        return low
    if at_high < target:
        return high
    a, b = math.log(low), math.log(high)
    for turn in range(200):
        if b - a <= tolerance:
            break
        middle = (a + b) / 2
        if turn % 2 == 0 and 0 < at_low < target < at_high:
            share = math.log(target / at_low) / math.log(at_high / at_low)
            # Keep away from the ends, or one of them would never move.
            middle = a + (b - a) * min(max(share, 0.01), 0.99)
        at_middle = value(math.exp(middle))
        if at_middle >= target:
            b, at_high = middle, at_middle
        else:
            a, at_low = middle, at_middle
    return math.exp(b)
