"""000 Fig 9d: the role of the front stage."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig09d",
    title="Share of the stream that goes through the front stage",
    about="R has 100 million rows, the skew is 1. The paper counted 1000 iterations with 10 % memory.",
    x=Axis(label="memory, % of R"),
    y=Axis(label="share of the stream"),
    kind=JoinSweep(measure="share through the front stage", bound=True),
    series=series("cmeshjoin", "chybridjoin", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, skew=1.0),
        "memory_share",
        (0.01, 0.02, 0.05, 0.10),
        tiny=(0.10, 0.20),
        to_x=100,
    ),
)
