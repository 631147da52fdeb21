"""000 Fig 6: processing time."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig06",
    title="Processing time against the size of R",
    about="The mean time that a row spends in the join, from loading to matching; rows that the front stage answers spend none. "
    "The runs are those of 5b.",
    x=Axis(label="|R|, million rows"),
    y=Axis(label="processing time, ms", log=True),
    kind=JoinSweep(measure="processing time"),
    series=series("meshjoin", "cmeshjoin", "hybridjoin", "chybridjoin", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_fixed_bytes=1_200_000_000, skew=1.0),
        "table_rows",
        (20_000_000, 40_000_000, 70_000_000, 100_000_000),
        tiny=(20_000_000, 100_000_000),
        to_x=1e-6,
    ),
)
