"""004 Fig 3f: weather reports."""

from dataclasses import replace

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import PATIENCE, sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="front_stage",
    name="fig03f",
    title="Service rate with weather reports, joined on longitude",
    about="R has 20 million rows of 128 bytes, as many in the stream's rows; both are joined on the longitude, 0 to 36,000, so that "
    "every stream row meets 556 rows of R. The reports are made up with the format's fields; stations are spread over the "
    "continents, and report equally often.",
    x=Axis(label="memory, % of R"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=series("meshjoin", "cmeshjoin", "adaptive"),
    sizes=sizes(
        Scenario(
            table_rows=36_001 * 556,
            rows_per_key=556,
            keys="weather",
            skew=0.0,
            row_bytes=128,
            stream_row_bytes=128,
        ),
        "memory_share",
        (0.01, 0.02),
        tiny=(0.3,),
        to_x=100,
        scales={"full": 1, "quick": 10, "tiny": 1_000},
        patience={
            "full": replace(PATIENCE["full"], rows_min=10_000, cycles=4, intervals=3),
            "quick": replace(
                PATIENCE["quick"],
                rows_min=5_000,
                fills=1.5,
                exchanges=0.5,
                cycles=4,
                cycle_intervals=2,
                intervals=3,
            ),
            "tiny": replace(PATIENCE["tiny"], rows_min=300, cycles=3, intervals=2),
        },
    ),
)
