"""004 Fig 2: the size of the cache, estimated and measured."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="front_stage",
    name="fig02",
    title="Service rate of CMESHJOIN against the size of its cache, measured and estimated",
    about="R has 100 million rows, memory is 0.11 GB (1 % of R), the skew 1.",
    x=Axis(label="cache, % of the memory"),
    y=Axis(label="service rate, rows/s"),
    kind=JoinSweep(predicted=True),
    series=series("cmeshjoin"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.01, skew=1.0),
        "front_share",
        (0.02, 0.05, 0.15, 0.30, 0.50, 0.75),
        quick=(0.02, 0.05, 0.10, 0.15, 0.20, 0.30, 0.50, 0.70),
        tiny=(0.05, 0.15, 0.3),
        to_x=100,
        scales={"full": 1, "quick": 100, "tiny": 2_000},
        tiny_with={"memory_share": 0.2},
    ),
)
