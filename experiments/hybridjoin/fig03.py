"""001 Fig 3: how often the parts of R are used."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.page_use import PageUse
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="hybridjoin",
    name="fig03",
    title="Use of R's pages by their place",
    about="R has 16,000 pages and is sorted by how often its keys are asked for. A segment has 20 pages.",
    x=Axis(label="place in R, pages"),
    y=Axis(label="per segment and 1000 stream rows", log=True),
    kind=PageUse(parts={"full": 40, "quick": 40, "tiny": 8}),
    series=series("meshjoin", "hybridjoin"),
    sizes=sizes(
        Scenario(table_rows=1_072_000, memory_share=0.05, skew=1.0, clustered=True),
        "",
        (0.0,),
        tiny=(0.0,),
        scales={"full": 1, "quick": 1, "tiny": 10},
    ),
    devices=("hdd2012",),
)
