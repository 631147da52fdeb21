"""001 Fig 10c: service rate against the size of R."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="hybridjoin",
    name="fig10c",
    title="Service rate against the size of R",
    about="R is sorted by how often its keys are asked for, M is 50 MB.",
    x=Axis(label="|R|, million rows", log=True),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("inlj", "meshjoin", "hybridjoin", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=2_000_000, memory_fixed_bytes=50_000_000, skew=1.0, clustered=True),
        "table_rows",
        (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000),
        tiny=(2_000_000, 8_000_000),
        to_x=1e-6,
        scales={"full": 1, "quick": 10, "tiny": 40},
    ),
)
