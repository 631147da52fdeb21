"""003 Fig 4b: memory for a stream rate, by the size of R."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.memory_for_rate import MemoryForRate
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="ssbj",
    name="fig04b",
    title="Memory for 51,242 rows/s against the size of R",
    about="The stream has a skew of 1. "
    "Keys of R have two rows each, and 37 % of the stream rows have a key that R lacks: the paper draws the keys of R at random with repetition, which leaves 37 % of them out and gives the others 1.6 rows on average.",
    x=Axis(label="|R|, million rows"),
    y=Axis(label="memory, MiB", log=True),
    kind=MemoryForRate(
        memory_shares={
            "full": (0.01, 0.02, 0.05, 0.10),
            "quick": (0.01, 0.02, 0.05, 0.10, 0.20, 0.40),
            "tiny": (0.10, 0.80),
        }
    ),
    series=series("meshjoin", "ssbj", "adaptive"),
    sizes=sizes(
        Scenario(table_rows=20_000_000, skew=1.0, rows_per_s=51_242.0, rows_per_key=2, absent=0.37),
        "table_rows",
        (20_000_000, 80_000_000),
        quick=(20_000_000, 80_000_000),
        tiny=(20_000_000, 80_000_000),
        to_x=1e-6,
        scales={"full": 1, "quick": 40, "tiny": 400},
    ),
)
