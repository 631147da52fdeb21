"""Fits the processor constants of a profile to joins that were run, from their counters and their time.

The calibration times stand-ins for what a join does to a row. A real join also encodes keys and assembles
batches; a few short runs of it say what that comes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from semistream.cost_model.profiles import DeviceProfile
from semistream.cost_model.work import Work
from semistream.errors import ConfigError

# Which constant is charged for which counter (`DeviceProfile.processor_seconds`).
_CONSTANTS = {
    "probes": "c_H",
    "rows_out": "c_O",
    "removals": "c_E",
    "rows_in": "c_S",
    "appends": "c_A",
    "switched": "c_B",
    "steps": "c_step",
}
# What the runs cannot tell apart, such as appends and removals, keeps the proportions it had.
_PULL = 1e-3
_ROUNDS = 5000


def fitted(profile: DeviceProfile, runs: Sequence[tuple[Work, float]]) -> DeviceProfile:
    """The profile with processor constants that explain the runs' seconds best; none is negative.

    Each run counts alike, however long it took: the squares of relative errors are minimised. What the profile
    charges for reading is taken off first, so runs on data in memory tell most.
    """
    if not runs or any(not seconds > 0 for _, seconds in runs):
        raise ConfigError(
            f"a profile is fitted to runs that took time, got {len(runs)}.",
            hint="pass pairs of counters and seconds, a handful of different joins.",
        )
    names = list(_CONSTANTS)
    before = np.array([getattr(profile, _CONSTANTS[name]) for name in names])
    scale = np.where(before > 0, before, 1e-9)
    seconds = np.array([each for _, each in runs])
    left = np.maximum(seconds - [profile.read_seconds(work) for work, _ in runs], 0.0)
    shares = (
        np.array([[getattr(work, name) for name in names] for work, _ in runs]) * scale / seconds[:, None]
    )
    # In units of the constants before; pulled towards a common multiple of them.
    multiple = max(1e-6, float(left.sum() / max((shares.sum(axis=1) * seconds).sum(), 1e-300)))
    x = np.full(len(names), multiple)
    shares_root = np.vstack((shares, np.sqrt(_PULL) * np.eye(len(names)) / multiple))
    wanted = np.concatenate((left / seconds, np.full(len(names), np.sqrt(_PULL))))
    gram, right = shares_root.T @ shares_root, shares_root.T @ wanted
    for _ in range(_ROUNDS):
        moved = 0.0
        for i in range(x.size):
            better = max(0.0, float(x[i] + (right[i] - gram[i] @ x) / gram[i, i]))
            moved = max(moved, abs(better - x[i]))
            x[i] = better
        if moved <= 1e-9 * multiple:
            break
    constants: dict[str, Any] = {
        _CONSTANTS[name]: float(value) for name, value in zip(names, x * scale, strict=True)
    }
    return replace(profile, source=f"{profile.source}; fitted to {len(runs)} runs"[:200], **constants)
