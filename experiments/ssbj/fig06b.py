"""003 Fig 6b: the disk buffer."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="ssbj",
    name="fig06b",
    title="Service rate through the disk phase of SSBJ against its disk buffer",
    about="R has 100 million rows, memory is 1 % of R, the skew 1. Keys of R have two rows each, and 37 % of the stream rows have a key that R lacks: the paper draws the keys of R at random with repetition, which leaves 37 % of them out and gives the others 1.6 rows on average.",
    x=Axis(label="disk buffer, pages of 8 KiB", log=True),
    y=Axis(label="rows/s through the disk phase"),
    kind=JoinSweep(measure="rate through the disk phase"),
    series=series("ssbj"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.01, skew=1.0, rows_per_key=2, absent=0.37),
        "buffer_pages",
        (4, 32, 128, 512, 1536),
        quick=(1, 2, 8, 32, 64, 96),
        tiny=(1, 8, 32),
        scales={"full": 5, "quick": 100, "tiny": 2_000},
        tiny_with={"memory_share": 0.2},
    ),
)
