"""004 Fig 3b: service rate against memory, for several skews."""

from semistream.experiments.figure import Axis, Figure, Series, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario
from semistream.experiments.variant import Variant


def _at(algorithm: str, skew: float) -> Series:
    return Series(
        variant=Variant(algorithm=algorithm), label=f"{algorithm}, skew {skew:g}", changes=(("skew", skew),)
    )


FIGURE = Figure(
    paper="front_stage",
    name="fig03b",
    title="Service rate against memory, for several skews",
    about="R has 100 million rows. MESHJOIN has a uniform stream, with which the paper finds it fastest; adaptive and the bound have "
    "a skew of 1.",
    x=Axis(label="memory, % of R"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=(
        *series("adaptive"),
        _at("meshjoin", 0.0),
        _at("cmeshjoin", 0.0),
        _at("cmeshjoin", 0.5),
        _at("cmeshjoin", 1.0),
    ),
    sizes=sizes(
        Scenario(table_rows=100_000_000, skew=1.0),
        "memory_share",
        (0.01, 0.05, 0.10),
        quick=(0.01, 0.02, 0.05, 0.10),
        tiny=(0.10, 0.20),
        to_x=100,
    ),
)
