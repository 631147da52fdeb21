"""001 Fig 6: the disk buffer of HYBRIDJOIN."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="hybridjoin",
    name="fig06",
    title="Service rate of HYBRIDJOIN against its disk buffer, measured and predicted",
    about="R has 2 million rows and is sorted by how often its keys are asked for, M is 50 MB.",
    x=Axis(label="disk buffer, pages of 8 KiB", log=True),
    y=Axis(label="service rate, rows/s"),
    kind=JoinSweep(),
    series=series("hybridjoin"),
    sizes=sizes(
        Scenario(table_rows=2_000_000, memory_fixed_bytes=50_000_000, skew=1.0, clustered=True),
        "buffer_pages",
        (1, 4, 16, 64, 256, 1024, 3072),
        quick=(1, 4, 16, 64, 128, 256),
        tiny=(1, 8, 32),
        scales={"full": 1, "quick": 10, "tiny": 40},
    ),
)
