"""004 Fig 3a: the size of the cache at several memory budgets."""

from semistream.experiments.figure import Axis, Figure, Series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario
from semistream.experiments.variant import Variant


def _at(share: float) -> Series:
    return Series(
        variant=Variant(algorithm="cmeshjoin"),
        label=f"memory {share:.0%}",
        changes=(("memory_share", share),),
    )


FIGURE = Figure(
    paper="front_stage",
    name="fig03a",
    title="Service rate of CMESHJOIN against the size of its cache, by memory",
    about="R has 100 million rows, the skew is 1. The runs with 1 % and 10 % are those of Fig 2 and of 000 Fig 9a.",
    x=Axis(label="cache, % of the memory"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(),
    series=(_at(0.01), _at(0.05), _at(0.10)),
    sizes=sizes(
        Scenario(table_rows=100_000_000, skew=1.0),
        "front_share",
        (0.05, 0.15, 0.30, 0.50),
        quick=(0.02, 0.05, 0.15, 0.30, 0.50, 0.70),
        tiny=(0.15,),
        to_x=100,
        scales={"full": 1, "quick": 100, "tiny": 200},
    ),
)
