"""000 Fig 5b: service rate against the size of R."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig05b",
    title="Service rate against the size of R",
    about="Memory is 1.12 GB (10 % of 100 million rows) for all sizes of R; the stream has a skew of 1.",
    x=Axis(label="|R|, million rows"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("meshjoin", "cmeshjoin", "hybridjoin", "chybridjoin", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_fixed_bytes=1_200_000_000, skew=1.0),
        "table_rows",
        (20_000_000, 40_000_000, 70_000_000, 100_000_000),
        tiny=(20_000_000, 100_000_000),
        to_x=1e-6,
    ),
)
