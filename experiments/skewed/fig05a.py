"""000 Fig 5a: service rate against memory."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig05a",
    title="Service rate against memory",
    about="R has 100 million rows, the stream a skew of 1; memory is 1 to 10 % of R.",
    x=Axis(label="memory, % of R"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("meshjoin", "cmeshjoin", "hybridjoin", "chybridjoin", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, skew=1.0),
        "memory_share",
        (0.01, 0.02, 0.05, 0.10),
        tiny=(0.10, 0.20),
        to_x=100,
    ),
)
