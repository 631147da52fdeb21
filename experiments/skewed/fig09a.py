"""000 Fig 9a: the size of the front stage."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig09a",
    title="Service rate of CMESHJOIN against the size of its front stage",
    about="R has 100 million rows, memory is 10 % of R, the skew 1. Without a front stage CMESHJOIN is MESHJOIN. Beside "
    "it stands what the cost model says of each size.",
    x=Axis(label="front stage, % of the memory"),
    y=Axis(label="service rate, rows/s"),
    kind=JoinSweep(predicted=True),
    series=series("cmeshjoin"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.10, skew=1.0),
        "front_share",
        (0.0, 0.05, 0.15, 0.30, 0.50, 0.75),
        quick=(0.0, 0.05, 0.10, 0.15, 0.20, 0.30, 0.50, 0.75),
        tiny=(0.0, 0.15, 0.75),
        to_x=100,
        tiny_with={"memory_share": 0.5},
    ),
)
