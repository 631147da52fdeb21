"""004 Fig 3c: service rate against the size of R."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="front_stage",
    name="fig03c",
    title="Service rate against the size of R",
    about="Memory is 1.12 GB for all sizes of R; the stream has a skew of 1. The runs are those of 000 Fig 5b, and INLJ.",
    x=Axis(label="|R|, million rows"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("meshjoin", "cmeshjoin", "inlj", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_fixed_bytes=1_200_000_000, skew=1.0),
        "table_rows",
        (20_000_000, 40_000_000, 70_000_000, 100_000_000),
        tiny=(20_000_000, 100_000_000),
        to_x=1e-6,
    ),
)
