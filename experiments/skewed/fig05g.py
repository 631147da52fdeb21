"""000 Fig 5g: temporal locality."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig05g",
    title="Service rate under temporal locality",
    about="The stream comes in 25 intervals of 2 million rows, each with keys of its own twenty-fifth of the domain, by Zipf's law. "
    "Every value is in R N times. R has 100 million rows, memory is 10 % of R.",
    x=Axis(label="N, rows of R for each value"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("meshjoin", "cmeshjoin", "adaptive"),
    sizes=sizes(
        Scenario(
            table_rows=100_000_000, memory_share=0.10, skew=1.0, keys="locality", interval_rows=2_000_000
        ),
        "rows_per_key",
        (1, 10, 20),
        tiny=(1, 20),
    ),
)
