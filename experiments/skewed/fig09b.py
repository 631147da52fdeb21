"""000 Fig 9b: the threshold."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig09b",
    title="Service rate through the front stage against a fixed threshold",
    about="R has 100 million rows, memory is 10 % of R, the skew 1. Only rows that the front stage answers are counted. A key comes in "
    "if so many rows waited for it together.",
    x=Axis(label="threshold"),
    y=Axis(label="rows/s through the front stage"),
    kind=JoinSweep(measure="rate through the front stage"),
    series=series("cmeshjoin"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.10, skew=1.0),
        "threshold",
        (1, 2, 4, 10),
        quick=(1, 2, 3, 4, 6, 8, 10),
        tiny=(1, 10),
    ),
)
