"""001 Fig 10b: waiting time at low arrival rates."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="hybridjoin",
    name="fig10b",
    title="Waiting time at low arrival rates",
    about="The time from a row's arrival until it is loaded into the join. R has 2 million rows, M is 50 MB, the stream is "
    "bursty.",
    x=Axis(label="arrival rate, rows/s", log=True),
    y=Axis(label="waiting time, ms", log=True),
    kind=JoinSweep(measure="waiting time"),
    series=series("inlj", "meshjoin", "hybridjoin", "adaptive"),
    sizes=sizes(
        Scenario(
            table_rows=2_000_000, memory_fixed_bytes=50_000_000, skew=1.0, clustered=True, arrivals="bursty"
        ),
        "rows_per_s",
        (50, 75, 125, 250, 500, 1000, 2000),
        quick=(50, 75, 125, 500, 2000),
        tiny=(125, 500),
        scales={"full": 1, "quick": 10, "tiny": 40},
    ),
)
