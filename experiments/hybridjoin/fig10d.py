"""001 Fig 10d: service rate against memory."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="hybridjoin",
    name="fig10d",
    title="Service rate against memory",
    about="R has 2 million rows and is sorted by how often its keys are asked for.",
    x=Axis(label="memory, MB"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("inlj", "meshjoin", "hybridjoin", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=2_000_000, skew=1.0, clustered=True),
        "memory_fixed_bytes",
        (20_000_000, 50_000_000, 100_000_000, 150_000_000),
        tiny=(50_000_000, 100_000_000),
        to_x=1e-6,
        scales={"full": 1, "quick": 10, "tiny": 40},
    ),
)
