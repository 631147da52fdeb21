"""000 Fig 9c: the disk buffer."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig09c",
    title="Service rate through the disk phase of CMESHJOIN against its disk buffer",
    about="R has 100 million rows, memory is 1 % of R, the skew 1. Only rows that miss the front stage are counted.",
    x=Axis(label="disk buffer, pages of 8 KiB", log=True),
    y=Axis(label="rows/s through the disk phase"),
    kind=JoinSweep(measure="rate through the disk phase"),
    series=series("cmeshjoin"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.01, skew=1.0),
        "buffer_pages",
        (1, 16, 128, 1024, 8192),
        quick=(1, 2, 8, 32, 64, 96),
        tiny=(1, 8, 32),
        scales={"full": 1, "quick": 100, "tiny": 2_000},
        tiny_with={"memory_share": 0.2},
    ),
)
