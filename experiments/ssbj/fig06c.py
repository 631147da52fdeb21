"""003 Fig 6c: predicted and measured cost, skew 0."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="ssbj",
    name="fig06c",
    title="Cost of a stream row, predicted and measured, skew 0",
    about="R has 100 million rows, the stream is uniform. Keys of R have two rows each, and 37 % of the stream rows have a key that R lacks: the paper draws the keys of R at random with repetition, which leaves 37 % of them out and gives the others 1.6 rows on average.",
    x=Axis(label="memory, % of R"),
    y=Axis(label="us a row"),
    kind=JoinSweep(measure="cost", predicted=True),
    series=series("meshjoin", "ssbj"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, skew=0.0, rows_per_key=2, absent=0.37),
        "memory_share",
        (0.01, 0.10),
        quick=(0.01, 0.05, 0.10),
        tiny=(0.10, 0.20),
        to_x=100,
    ),
)
