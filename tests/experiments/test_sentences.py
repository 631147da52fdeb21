"""What is said of other devices follows from numbers, and is not said without them."""

from __future__ import annotations

from semistream.experiments.claims import Claim, judge
from semistream.experiments.figure import Axis, Figure, series
from semistream.experiments.grids import sizes
from semistream.experiments.kinds.join_sweep import JoinSweep
from semistream.experiments.rows import Row, Source
from semistream.experiments.scenario import Scenario
from semistream.experiments.sentences import adaptive_sentences, device_sentences


def figure(measure: str = "service rate") -> Figure:
    return Figure(
        paper="skewed", name="fig05a", title="", about="", x=Axis(label="x"), y=Axis(label="y"),
        kind=JoinSweep(measure=measure), series=series("meshjoin", "hybridjoin"),
        sizes=sizes(Scenario(table_rows=1000), "skew", (1.0,), tiny=(1.0,)),
    )  # fmt: skip


def row(name: str, device: str, value: float, source: Source = "measured", x: float = 10.0) -> Row:
    return Row(
        paper="skewed", figure="fig05a", series=name, device=device, x=x, measure="service rate", unit="rows/s",
        value=value, source=source, algorithm=name,
    )  # fmt: skip


CLAIM = Claim(says="", rule="ratio", first="meshjoin", second="hybridjoin", at=10, claimed=2.0)


def said(meshjoin: tuple[float, float], hybridjoin: tuple[float, float]) -> list[str]:
    rows = [
        row(name, device, value)
        for name, values in (("meshjoin", meshjoin), ("hybridjoin", hybridjoin))
        for device, value in zip(("hdd2012", "nvme"), values, strict=True)
    ]
    return device_sentences(figure(), rows, [judge(CLAIM, rows, {})])


def test_a_conclusion_that_turns_around_is_said_with_its_numbers() -> None:
    found = said((20.0, 10.0), (10.0, 40.0))
    assert (
        "nvme turns this around: meshjoin over hybridjoin is 0.25 at 10, where it is 2 on hdd2012." in found
    )
    assert any("hybridjoin, 4 times as good as meshjoin" in text for text in found)


def test_a_lead_that_shrinks_is_said() -> None:
    assert said((20.0, 12.0), (10.0, 10.0)) == [
        "On nvme the lead shrinks: meshjoin over hybridjoin is 1.2 at 10, not 2."
    ]


def test_nothing_is_said_of_what_stays() -> None:
    assert said((20.0, 21.0), (10.0, 10.0)) == []


def test_where_adaptive_stands() -> None:
    rows = [
        row("meshjoin", "nvme", 10.0),
        row("adaptive", "nvme", 30.0),
        row("clairvoyant bound", "nvme", 40.0, "bound"),
    ]
    (text,) = adaptive_sentences(figure(), rows)
    assert "at 1 of 1 places (3 to 3 times as good)" in text
    assert "75% to 75% of the clairvoyant bound" in text
    assert adaptive_sentences(figure(), rows[:1]) == []


def test_less_time_is_better() -> None:
    rows = [row("meshjoin", "nvme", 10.0), row("adaptive", "nvme", 5.0), row("hybridjoin", "nvme", 6.0)]
    (text,) = adaptive_sentences(figure("processing time"), rows)
    assert "at 1 of 1 places (1.2 to 1.2 times as good)" in text
