"""001 Fig 8: the 80/20 rule."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.stream_facts import Sales
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="hybridjoin",
    name="fig08",
    title="Sales by product, the most popular first",
    about="The stream's keys follow Zipf's law with an exponent of 1, which the paper takes for the 80/20 rule.",
    x=Axis(label="products, % of all"),
    y=Axis(label="share of the sales"),
    kind=Sales(),
    series=series("hybridjoin"),
    sizes=sizes(
        Scenario(table_rows=2_000_000, skew=1.0),
        "",
        (0.01, 0.02, 0.05, 0.10, 0.20, 0.40, 0.60, 0.80, 1.0),
        tiny=(0.05, 0.20, 0.50, 1.0),
        to_x=100,
        scales={"full": 1, "quick": 10, "tiny": 40},
    ),
    devices=("hdd2012",),
)
