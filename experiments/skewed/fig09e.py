"""000 Fig 9e: R grows while the join runs."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.growth import Growth
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig09e",
    title="Service rate of CMESHJOIN while R doubles",
    about="R begins with 50 million rows; then 50 million more are appended while the join runs, and the stream asks for all "
    "keys there are. Memory is 1.12 GB, the skew 1.",
    x=Axis(label="time, intervals of equally many stream rows"),
    y=Axis(label="service rate, rows/s"),
    kind=Growth(),
    series=series("cmeshjoin"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_fixed_bytes=1_200_000_000, skew=1.0),
        "",
        (0.0,),
        tiny=(0.0,),
    ),
)
