"""003 Fig 6a: the switching factor."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="ssbj",
    name="fig06a",
    title="Service rate of SSBJ against its switching factor",
    about="R has 20 million rows, memory is 1 % of R, the skew 1. A factor of 1 means no hysteresis. Keys of R have two rows each, and 37 % of the stream rows have a key that R lacks: the paper draws the keys of R at random with repetition, which leaves 37 % of them out and gives the others 1.6 rows on average.",
    x=Axis(label="switching factor", log=True),
    y=Axis(label="service rate, rows/s"),
    kind=JoinSweep(),
    series=series("ssbj"),
    sizes=sizes(
        Scenario(table_rows=20_000_000, memory_share=0.01, skew=1.0, rows_per_key=2, absent=0.37),
        "switching_factor",
        (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0),
        quick=(0.25, 0.5, 1.0, 2.0, 4.0),
        tiny=(0.5, 1.0),
        scales={"full": 1, "quick": 20, "tiny": 40},
    ),
)
