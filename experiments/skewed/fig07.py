"""000 Fig 7: where to look into the queue while its end is being shed."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.shedding import Shed, Shedding
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="skewed",
    name="fig07",
    title="Service rate under load shedding, by the place in the queue of the key that is looked up",
    about="CHYBRIDJOIN sheds from the end of its queue. The place is counted from where rows come in. The paper's R is "
    "unsorted; the second line has frequent keys on neighbouring pages, which Theorem 1 expects in practice. Every iteration reads one "
    "page, which makes a large R slow to run, so that it is smaller than the paper's also in the full size.",
    x=Axis(label="place of the lookup, % of the queue"),
    y=Axis(label="service rate, rows/s"),
    kind=Shedding(
        ways=(
            Shed(label="chybridjoin, R unsorted"),
            Shed(label="chybridjoin, R by frequency", clustered=True),
        ),
        over="position",
    ),
    series=series("chybridjoin"),
    sizes=sizes(
        Scenario(table_rows=100_000_000, memory_share=0.05, skew=1.0),
        "",
        (0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.75, 0.90, 1.0),
        quick=(0.05, 0.15, 0.30, 0.50, 0.75, 1.0),
        tiny=(0.15, 1.0),
        to_x=100,
        scales={"full": 50, "quick": 200, "tiny": 2_000},
        tiny_with={"memory_share": 0.2},
    ),
)
