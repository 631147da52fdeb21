"""003 Fig 5d: TPC-H."""

from semistream.experiments.figure import Axis, Figure, Series, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.scenario import Scenario
from semistream.experiments.variant import Variant

_ZIPF = (("keys", "zipf"), ("skew", 1.0))

FIGURE = Figure(
    paper="ssbj",
    name="fig05d",
    title="Service rate with TPC-H's customers and orders",
    about="Customer is R (15 million rows of 223 bytes), Orders the stream (138 bytes). TPC-H draws the customers of orders evenly "
    "from two thirds of all (its section 4.2.3): such keys have no skew that a cache could use. Two lines have the same tables with "
    "customers drawn by Zipf's law. Rows are made up, with TPC-H's sizes and keys.",
    x=Axis(label="memory, % of R"),
    y=Axis(label="service rate, rows/s", log=True),
    kind=JoinSweep(bound=True),
    series=(
        *series("meshjoin", "ssbj", "adaptive"),
        Series(variant=Variant(algorithm="meshjoin"), label="meshjoin, Zipf", changes=_ZIPF),
        Series(variant=Variant(algorithm="ssbj"), label="ssbj, Zipf", changes=_ZIPF),
    ),
    sizes=sizes(
        Scenario(table_rows=15_000_000, keys="tpch", skew=0.0, row_bytes=223, stream_row_bytes=138),
        "memory_share",
        (0.01, 0.05, 0.10),
        tiny=(0.10, 0.20),
        to_x=100,
        scales={"full": 1, "quick": 40, "tiny": 400},
    ),
)
