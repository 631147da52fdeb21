"""000 Fig 8: service rate under load shedding."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.shedding import Shed, Shedding
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig08",
    title="Service rate under load shedding, by load",
    about="Tuned looks up the key at 15 % of the queue, untuned the one at its end; keep is MESHJOIN's way, which sheds rows "
    "before they are looked at. Rows arrive at a multiple of the rate without shedding. As in 7, R is smaller than the paper's.",
    x=Axis(label="arrival rate, times the rate without shedding"),
    y=Axis(label="service rate, rows/s"),
    kind=Shedding(
        ways=(
            Shed(label="tuned", position=0.15),
            Shed(label="tuned, over the network", position=0.15, to_disk=False),
            Shed(label="untuned"),
            Shed(label="keep", strategy="keep"),
            Shed(label="tuned, R by frequency", position=0.15, clustered=True),
            Shed(label="untuned, R by frequency", clustered=True),
            Shed(label="keep, R by frequency", strategy="keep", clustered=True),
        ),
        over="overload",
    ),
    series=series("chybridjoin"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.05, skew=1.0),
        "",
        (1.5, 2.0, 3.0),
        quick=(1.5, 2.0),
        tiny=(2.0,),
        scales={"full": 50, "quick": 200, "tiny": 2_000},
        tiny_with={"memory_share": 0.2},
    ),
)
