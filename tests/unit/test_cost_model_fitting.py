"""Constants are found again from the time of runs that obey them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semistream.cost_model.fitting import fitted
from semistream.cost_model.profiles import NVME
from semistream.cost_model.work import Counts
from semistream.errors import ConfigError

TRUE = replace(NVME, c_H=200e-9, c_O=400e-9, c_S=90e-9, c_A=100e-9, c_E=75e-9, c_step=50e-6)


def some_runs(count: int, *, noise: float = 0.0) -> list[tuple[Counts, float]]:
    random = np.random.default_rng(2)
    runs = []
    for _ in range(count):
        rows, misses, steps = random.uniform(1e5, 1e6), random.uniform(0, 1e5), random.uniform(1, 5000)
        work = Counts(
            probes=rows + random.uniform(0, 2e6),
            rows_in=rows,
            rows_out=random.uniform(0.2, 3) * rows,
            appends=misses,
            removals=misses,
            steps=steps,
            bytes_read=random.uniform(0, 1e8),
        )
        runs.append((work, TRUE.seconds(work) * (1 + noise * random.standard_normal())))
    return runs


def test_constants_that_the_runs_tell_apart_are_found() -> None:
    found = fitted(NVME, some_runs(40))
    for name in ("c_H", "c_O", "c_S", "c_step"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.15), name
    assert found.c_A + found.c_E == pytest.approx(TRUE.c_A + TRUE.c_E, rel=0.15)
    assert found.positioning_s == NVME.positioning_s


def test_new_runs_are_predicted_from_noisy_ones() -> None:
    found = fitted(NVME, some_runs(12, noise=0.05))
    for work, seconds in some_runs(30):
        assert found.seconds(work) == pytest.approx(seconds, rel=0.1)


def test_one_run_scales_all_constants() -> None:
    work = Counts(probes=1e6, rows_in=1e6, rows_out=1e6)
    found = fitted(NVME, [(work, 10 * NVME.seconds(work))])
    assert found.seconds(work) == pytest.approx(10 * NVME.seconds(work), rel=0.01)
    assert found.c_H / found.c_O == pytest.approx(NVME.c_H / NVME.c_O, rel=0.05)


def test_runs_faster_than_their_reads_leave_nothing_negative() -> None:
    found = fitted(NVME, [(Counts(bytes_read=1e9, probes=10), 0.01)])
    assert min(found.c_H, found.c_O, found.c_E, found.c_S, found.c_A, found.c_B, found.c_step) >= 0


@pytest.mark.parametrize("runs", [[], [(Counts(), 0.0)], [(Counts(), float("nan"))]])
def test_runs_that_took_no_time_say_nothing(runs: list[tuple[Counts, float]]) -> None:
    with pytest.raises(ConfigError, match="runs"):
        fitted(NVME, runs)
