"""003 Fig 5c: service rate against skew."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="ssbj",
    name="fig05c",
    title="Service rate against the skew of the stream",
    about="R has 100 million rows, memory is 10 % of R. Keys of R have two rows each, and 37 % of the stream rows have a key that R lacks: the paper draws the keys of R at random with repetition, which leaves 37 % of them out and gives the others 1.6 rows on average.",
    x=Axis(label="Zipf exponent of the stream"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("meshjoin", "ssbj", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.10, rows_per_key=2, absent=0.37),
        "skew",
        (0.0, 0.5, 1.0),
        quick=(0.0, 0.25, 0.5, 0.75, 1.0),
        tiny=(0.0, 1.0),
    ),
)
