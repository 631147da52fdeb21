"""What a cost model predicts for a run that was measured, given what that run really held in memory."""

# The papers' symbols keep their case.
# ruff: noqa: N803, N806

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from semistream.core.keys import FIXED_WIDTH_BYTES
from semistream.cost_model import (
    adaptive,
    chybridjoin,
    cinlj,
    cmeshjoin,
    hybridjoin,
    meshjoin,
    partitioned,
    rmeshjoin,
    ssbj,
    ssij,
)
from semistream.cost_model.frequencies import KeyProfile
from semistream.cost_model.models import MODELS
from semistream.cost_model.prediction import Prediction
from semistream.cost_model.profiles import DeviceProfile
from semistream.cost_model.setting import Setting, Sizes
from semistream.joins import ALGORITHMS
from semistream.master_table.contract import Table
from semistream.simulation.intervals import Report
from semistream.waiting_room.queue_room import waiting_row_bytes


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a run had room for, and used: `waiting_rows` in the waiting room, `cached_keys` in the front stage, `buffer_rows`
    of R in the disk buffer; `parts` of R are served in turn where it is swept. `cached_bytes`: what the front stage took."""

    waiting_rows: float
    cached_keys: float
    cached_bytes: float
    buffer_rows: float
    parts: float = 1.0

    @classmethod
    def of(cls, report: Report, table: Table) -> Held:
        """A room that is kept full holds as many rows as there were on average, which may change as a front stage takes
        memory or gives it back. One that is filled and emptied holds as many as left it at a time."""
        chosen = ALGORITHMS[report.algorithm]
        pages = chosen.shares.pages(table, report.memory_bytes)
        counters, held = report.counters, report.waiting_rows
        parts = max(1.0, counters.drains / counters.cycles) if counters.cycles else 1.0
        is_emptied = chosen.path == "batched" or (chosen.path == "planned" and parts < 1.5)
        if is_emptied and counters.drains:
            held = counters.removals / counters.drains
        # A segment does not go over the end of a shard, so the last one is short.
        segments = table.shards * -(-max(1, table.pages // table.shards) // pages)
        return cls(
            waiting_rows=max(1.0, held),
            cached_keys=float(report.final.front_stage_keys),
            cached_bytes=float(report.final.front_stage_bytes),
            buffer_rows=max(1.0, table.rows / segments),
            parts=parts,
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
    found = _PREDICT[model](setting, M, held)
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


def _cached_pages(setting: Setting, held: Held) -> float:
    return held.cached_keys * setting.m * setting.sizes.v_R / setting.page_bytes


def _worth(setting: Setting, held: Held) -> float:
    """How many waiting rows take as much as a cached key, all that leads to them included. Joins hold a row's key beside
    it."""
    waiting = waiting_row_bytes(setting.sizes.v_S + FIXED_WIDTH_BYTES)
    return held.cached_bytes / max(1.0, held.cached_keys) / waiting


_PREDICT: Mapping[str, Predict] = {
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
        setting, M, h=held.cached_keys, b=held.buffer_rows, w_S=_w(setting, held), theta=_worth(setting, held)
    ),
    "ssij": lambda setting, M, held: ssij.predict(
        setting, M, cached_pages=_cached_pages(setting, held), B=held.waiting_rows
    ),
    "partitioned": lambda setting, M, held: partitioned.predict(
        setting,
        M,
        V=held.buffer_rows * setting.sizes.v_R,
        cached_pages=_cached_pages(setting, held),
        H=held.waiting_rows,
    ),
    "adaptive": lambda setting, M, held: adaptive.predict(
        setting, M, h=held.cached_keys, H=held.waiting_rows, parts=held.parts
    ),
}
