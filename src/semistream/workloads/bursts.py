"""The bursty arrival schedule of paper 001."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from semistream.errors import ConfigError
from semistream.workloads._arrival_kernels import run_on_off_streams
from semistream.workloads.arrivals import check_rate
from semistream.workloads.contracts import random_generator
from semistream.workloads.synthetic import check_seed
from semistream.workloads.zipf import Int64s

STREAMS_MAX = 40
_STEPS = 4096
_TAG = 0xB2057


@dataclass(frozen=True, kw_only=True)
class BurstyArrivals:
    """The bursty, self-similar schedule of paper 001, Fig 7 (STREAMGENERATOR).

    `streams` virtual streams are either on or off. Stream i = 1, 2, ... brings 2^i rows in each step while
    it is on, and stays on or off for a random time, uniform in 0 .. 2^i steps. So the bursts of one stream
    look like those of the next one, twice as high and twice as long. The variance of the rate, taken over
    windows of m steps, falls like 1/m for independent arrivals; here it hardly falls until m reaches the
    longest stream's 2^streams steps, and only beyond that like 1/m.

    Where the pseudo code is unclear or cannot be meant, this is what is done:

    - One flag `on` is shared by all streams (lines 3, 20-26), which would add the bandwidth of one stream
      and subtract another's, down to a negative rate. Every stream has its own.
    - Line 11 compares the time with the stream dequeued first, and line 12 dequeues another one and switches
      that; the first is never put back. Here the stream whose time has come is switched, and put back.
    - The `If` of line 11 switches one stream in a step, so that short streams fall behind. Here all streams
      whose time has come are switched before the step's rows are counted.
    - Line 19 multiplies the sum of time and random number by the bandwidth, which grows without bound. Meant
      is that the next switch is a random time of that length later.
    - Line 6 starts all streams off and due at once, so that the first steps of every run are one huge burst.
      Here the streams start as they are found in the middle of a long run: on or off by a fair coin, and
      the first switch after what is left of a period (density 2 (1 - x/L) / L on 0 .. L). The mean rate is
      then (2^(streams+1) - 2) / 2 = 2^streams - 1 from the first step on.
    - The value d of lines 4 and 6 is never used; keys are drawn when rows leave (line 16), by whatever
      distribution this schedule is combined with.

    The priority queue holds at most 40 streams, so it is an array that is searched; about two switches
    happen in a step, whatever `streams` is.

    Parameters
    ----------
    streams: N of the paper, 1 to 40; bursts last from one to 2^streams steps.
    mean_rows_per_step: the bandwidths are scaled to it. Default: 2^streams - 1, as in the paper.
    """

    streams: int = 12
    mean_rows_per_step: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.streams <= STREAMS_MAX:
            raise ConfigError(
                f"a bursty schedule needs 1 to {STREAMS_MAX} virtual streams, got {self.streams}",
                hint="12 streams have bursts of up to about 4,000 steps",
            )
        check_rate(self.rows_per_step)
        check_seed(self.seed)

    @property
    def rows_per_step(self) -> float:
        paper = 2.0**self.streams - 1
        return paper if self.mean_rows_per_step is None else self.mean_rows_per_step

    def counts(self) -> Iterator[Int64s]:
        random = random_generator(self.seed, _TAG)
        bandwidths = 2.0 ** np.arange(1, self.streams + 1)
        on = random.random(self.streams) < 0.5
        next_switch = bandwidths * (1.0 - np.sqrt(1.0 - random.random(self.streams)))
        scale = self.rows_per_step / (2.0**self.streams - 1)
        step, owed = 0, 0.0
        while True:
            totals = np.empty(_STEPS, dtype=np.float64)
            run_on_off_streams(random, bandwidths, on, next_switch, step, totals)
            # Parts of rows wait for the step that makes them whole, so that the mean is kept.
            edges = owed + np.concatenate([[0.0], np.cumsum(totals * scale)])
            whole = np.floor(edges)
            yield np.diff(whole).astype(np.int64)
            step, owed = step + _STEPS, float(edges[-1] - whole[-1])
