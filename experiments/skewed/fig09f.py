"""000 Fig 9f: predicted and measured cost."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig09f",
    title="Cost of a stream row, predicted and measured",
    about="The time that a stream row takes by the cost model of each algorithm, for what the run held in memory, beside "
    "the time that its counted work takes. CINLJ is in Figure 5c.",
    x=Axis(label="memory, % of R"),
    y=Axis(label="us a row", log=True),
    kind=JoinSweep(measure="cost", predicted=True),
    series=series("meshjoin", "cmeshjoin", "hybridjoin", "chybridjoin", "inlj", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, skew=1.0),
        "memory_share",
        (0.01, 0.02, 0.05, 0.10),
        tiny=(0.10, 0.20),
        to_x=100,
    ),
)
