"""The event loop of the bursty schedule."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def run_on_off_streams(
    random: np.random.Generator,
    bandwidths: NDArray[np.float64],
    on: NDArray[np.bool_],
    next_switch: NDArray[np.float64],
    first_step: int,
    totals: NDArray[np.float64],
) -> None:
    """Fills `totals` with the bandwidth of the streams that are on in each step; continues on, next_switch.

    Streams switch in the order of their times, so the random numbers, and with them the schedule, do not
    depend on how many steps are made in one call.
    """
    for step in range(totals.size):
        now = float(first_step + step)
        while True:
            first = int(np.argmin(next_switch))
            if next_switch[first] > now:
                break
            on[first] = not on[first]
            next_switch[first] += random.random() * bandwidths[first]
        total = 0.0
        for i in range(bandwidths.size):
            if on[i]:
                total += bandwidths[i]
        totals[step] = total
