"""001 Fig 9: a bursty stream."""

from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.stream_facts import Flow
from semistream.experiments.scenario import Scenario

FIGURE = Figure(
    paper="hybridjoin",
    name="fig09",
    title="Rows that arrive over time",
    about="The paper's generator of bursts (its Fig 7) beside independent arrivals with the same mean. Self-similar means that windows "
    "which are 16 times as long vary hardly less; independent arrivals then vary a quarter as much.",
    x=Axis(label="time, windows"),
    y=Axis(label="arrival rate, rows/s"),
    kind=Flow(),
    series=series("hybridjoin"),
    sizes=sizes(Scenario(table_rows=2_000_000, rows_per_s=1000.0), "", (8, 128), tiny=(8, 128)),
    devices=("hdd2012",),
)
