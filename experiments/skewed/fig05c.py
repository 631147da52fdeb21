"""000 Fig 5c: INLJ and CINLJ against the size of R."""

from dataclasses import replace

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import PATIENCE, sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig05c",
    title="Service rate of INLJ and CINLJ against the size of R",
    about="As 5b. Here every row that misses is a read of its own, so that a front stage of the paper's size would take hours to "
    "fill: table and memory are a hundredth of the paper's also in the full size. What a row costs depends on "
    "their ratio alone, but for the share of the hottest keys, which shrinks slowly as R grows. Dashed: what the cost model says.",
    x=Axis(label="|R|, million rows"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True, predicted=True),
    series=series("inlj", "cinlj", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_fixed_bytes=1_200_000_000, skew=1.0),
        "table_rows",
        (20_000_000, 40_000_000, 70_000_000, 100_000_000),
        quick=(20_000_000, 100_000_000),
        tiny=(20_000_000, 100_000_000),
        to_x=1e-6,
        scales={"full": 100, "quick": 100, "tiny": 2_000},
        patience=PATIENCE | {"full": replace(PATIENCE["full"], seen=40.0, steps_max=600_000)},
    ),
)
