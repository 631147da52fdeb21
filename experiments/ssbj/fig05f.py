"""003 Fig 5f: the role of the cache."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="ssbj",
    name="fig05f",
    title="Share of the stream that goes through the cache",
    about="R has 100 million rows, the skew is 1; the runs are those of 5a. Keys of R have two rows each, and 37 % of the stream rows have a key that R lacks: the paper draws the keys of R at random with repetition, which leaves 37 % of them out and gives the others 1.6 rows on average.",
    x=Axis(label="memory, % of R"),
    y=Axis(label="share of the stream"),
    kind=JoinSweep(measure="share through the front stage", bound=True),
    series=series("ssbj", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, skew=1.0, rows_per_key=2, absent=0.37),
        "memory_share",
        (0.01, 0.05, 0.10),
        quick=(0.01, 0.02, 0.05, 0.10),
        tiny=(0.10, 0.20),
        to_x=100,
    ),
)
