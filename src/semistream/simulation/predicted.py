"""What a cost model predicts for a run that was measured, given what that run really held in memory."""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from semistream.cost_model import (
    adaptive,
    chybridjoin,
    cinlj,
    cmeshjoin,
    hybridjoin,
    meshjoin,
    rmeshjoin,
    ssbj,
    ssij,
)
from semistream.cost_model.frequencies import KeyProfile
from semistream.cost_model.models import MODELS
from semistream.cost_model.prediction import Prediction
from semistream.cost_model.profiles import DeviceProfile
from semistream.cost_model.setting import Setting, Sizes
from semistream.errors import ConfigError
from semistream.joins import ALGORITHMS
from semistream.master_table.contract import Table
from semistream.simulation.intervals import Report


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a run had room for, and used: `waiting_rows` in the waiting room, `cached_keys` in the front stage, `buffer_rows`
    of R in the disk buffer."""

    waiting_rows: float
    cached_keys: float
    buffer_rows: float

    @classmethod
    def of(cls, report: Report, table: Table) -> Held:
        """A room that is kept full holds as many rows as there were on average, which may change as a front stage takes
        memory or gives it back. One that is filled and emptied holds as many as left it at a time."""
        chosen = ALGORITHMS[report.algorithm]
        pages = chosen.shares.pages(table, report.memory_bytes)
        counters, held = report.counters, report.waiting_rows
        if chosen.path in ("planned", "batched") and counters.drains:
            held = counters.removals / counters.drains
        # A segment does not go over the end of a shard, so the last one is short.
        segments = table.shards * -(-max(1, table.pages // table.shards) // pages)
        return cls(
            waiting_rows=max(1.0, held),
            cached_keys=float(report.final.front_stage_keys),
            buffer_rows=max(1.0, table.rows / segments),
        )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Predicted beside measured, in rows/s. `error` is signed: +0.1 promises a tenth too much."""

    algorithm: str
    device: str
    predicted_rows_per_s: float
    measured_rows_per_s: float
    predicted_hit_ratio: float
    measured_hit_ratio: float
    held: Held
    prediction: Prediction

    @property
    def error(self) -> float:
        return self.predicted_rows_per_s / self.measured_rows_per_s - 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "algorithm": self.algorithm,
            "device": self.device,
            "predicted_rows_per_s": self.predicted_rows_per_s,
            "measured_rows_per_s": self.measured_rows_per_s,
            "error": self.error,
            "predicted_hit_ratio": self.predicted_hit_ratio,
            "measured_hit_ratio": self.measured_hit_ratio,
            "waiting_rows": self.held.waiting_rows,
            "cached_keys": self.held.cached_keys,
        }


def compare(
    report: Report,
    table: Table,
    keys: KeyProfile,
    *,
    device: DeviceProfile | None = None,
    rows_per_key: float = 1.0,
    unmatched: float = 0.0,
    stream_row_bytes: float = 20.0,
    model: str | None = None,
) -> Comparison:
    """The service rate of a run on the virtual clock beside that of the algorithm's model.

    keys: how often the stream asks for each key, as `cost_model.frequencies` or a sample has it. device: another
    one than the run's own; see `Report.rows_per_s_on`. model: the algorithm whose parts in other proportions ran.
    """
    model = model or report.algorithm
    predict = _PREDICT.get(model)
    if predict is None:
        raise ConfigError(
            f"nothing is known yet of what '{report.algorithm}' holds, so its rate cannot be predicted.",
            hint=f"choose one of: {', '.join(_PREDICT)}.",
        )
    device, held = device or report.device, Held.of(report, table)
    setting = Setting(
        R_t=table.rows,
        keys=keys,
        device=device,
        sizes=Sizes(
            v_S=stream_row_bytes,
            v_R=table.bytes / table.rows,
            fence=table.fence_bytes(list(range(table.shards))) / max(1, table.pages),
        ),
        m=rows_per_key,
        u=unmatched,
        page_bytes=table.page_bytes,
    )
    # What is given replaces all that memory decides; a model only must not refuse.
    M = max(float(report.memory_bytes), 2 * MODELS[model].minimum_memory(setting))
    found = predict(setting, M, held)
    measured = (
        report.rows_per_s
        if device == report.device or report.clock == "wall"
        else report.rows_per_s_on(device)
    )
    return Comparison(
        algorithm=report.algorithm,
        device=device.name,
        predicted_rows_per_s=found.rows_per_s,
        measured_rows_per_s=measured,
        predicted_hit_ratio=found.hit_ratio,
        measured_hit_ratio=report.hit_ratio,
        held=held,
        prediction=found,
    )


Predict = Callable[[Setting, float, Held], Prediction]


def _w(setting: Setting, held: Held) -> float:
    """Rows that come and go with each segment: those who wait, shared out over the k segments of a cycle."""
    return held.waiting_rows * held.buffer_rows / setting.R_t


_PREDICT: dict[str, Predict] = {
    "inlj": lambda setting, M, held: MODELS["inlj"].predict(setting, M),
    "meshjoin": lambda setting, M, held: meshjoin.predict(
        setting, M, b=held.buffer_rows, w=_w(setting, held)
    ),
    "rmeshjoin": lambda setting, M, held: rmeshjoin.predict(
        setting, M, b=held.buffer_rows, H_t=held.waiting_rows
    ),
    "hybridjoin": lambda setting, M, held: hybridjoin.predict(
        setting, M, unit_bytes=float(setting.page_bytes), H_t=held.waiting_rows
    ),
    "cinlj": lambda setting, M, held: cinlj.predict(setting, M, h=held.cached_keys),
    "cmeshjoin": lambda setting, M, held: cmeshjoin.predict(
        setting, M, h=held.cached_keys, b=held.buffer_rows, w_S=_w(setting, held)
    ),
    "chybridjoin": lambda setting, M, held: chybridjoin.predict(
        setting, M, h=held.cached_keys, unit_bytes=float(setting.page_bytes), H_t=held.waiting_rows
    ),
    "ssbj": lambda setting, M, held: ssbj.predict(
        setting, M, h=held.cached_keys, b=held.buffer_rows, w_S=_w(setting, held)
    ),
    "ssij": lambda setting, M, held: ssij.predict(
        setting,
        M,
        cached_pages=held.cached_keys * setting.m * setting.sizes.v_R / setting.page_bytes,
        B=held.waiting_rows,
    ),
    "adaptive": lambda setting, M, held: adaptive.predict(
        setting, M, h=held.cached_keys, H=held.waiting_rows
    ),
}

# The partition-based join's room is shared by all slots and the fullest is read, where its model sets slots aside.
PREDICTABLE = tuple(name for name in ALGORITHMS if name in _PREDICT)
