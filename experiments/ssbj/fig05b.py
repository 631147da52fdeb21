"""003 Fig 5b: service rate against the size of R."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="ssbj",
    name="fig05b",
    title="Service rate against the size of R",
    about="Memory is 1.12 GB for all sizes of R; the stream has a skew of 1. Keys of R have two rows each, and 37 % of the stream rows have a key that R lacks: the paper draws the keys of R at random with repetition, which leaves 37 % of them out and gives the others 1.6 rows on average.",
    x=Axis(label="|R|, million rows"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("meshjoin", "ssbj", "adaptive"),
    sizes=sizes(
        Scenario(
            table_rows=100_000_000, memory_fixed_bytes=1_200_000_000, skew=1.0, rows_per_key=2, absent=0.37
        ),
        "table_rows",
        (20_000_000, 50_000_000, 100_000_000),
        tiny=(20_000_000, 100_000_000),
        to_x=1e-6,
    ),
)
