"""The cost model of every algorithm, by its name."""

from __future__ import annotations

from semistream.cost_model import (
    adaptive,
    chybridjoin,
    cinlj,
    cmeshjoin,
    hybridjoin,
    inlj,
    meshjoin,
    partitioned,
    rmeshjoin,
    ssbj,
    ssij,
)
from semistream.cost_model.prediction import Model

MODELS: dict[str, Model] = {
    model.NAME: model
    for model in (
        inlj,
        meshjoin,
        rmeshjoin,
        hybridjoin,
        cinlj,
        cmeshjoin,
        chybridjoin,
        ssbj,
        ssij,
        partitioned,
        adaptive,
    )
}
