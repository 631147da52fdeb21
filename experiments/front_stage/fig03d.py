"""004 Fig 3d: service rate against skew."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="front_stage",
    name="fig03d",
    title="Service rate against the skew of the stream",
    about="R has 100 million rows, memory is 10 % of R. The runs are those of 000 Fig 5d.",
    x=Axis(label="Zipf exponent of the stream"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("meshjoin", "cmeshjoin", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.10),
        "skew",
        (0.0, 0.5, 0.75, 1.0),
        quick=(0.0, 0.25, 0.5, 0.75, 1.0),
        tiny=(0.0, 1.0),
    ),
)
