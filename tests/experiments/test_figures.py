"""Every figure in its tiny size: its runs, its CSV, its pictures, its claims."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from semistream.errors import ConfigError
from semistream.experiments.catalog import load_expected, load_figures
from semistream.experiments.figure import Figure
from semistream.experiments.make import show
from semistream.experiments.page import Shown
from semistream.experiments.rows import read_rows
from semistream.experiments.runner import Ran, ResultStore, run_figures

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FIGURES = load_figures(EXPERIMENTS)
EXPECTED = load_expected(EXPERIMENTS, FIGURES)
OF_COMPARISON = [figure for figure in FIGURES if getattr(figure.kind, "bound", False)]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All runs at once, since figures share them."""
    store = ResultStore(tmp_path_factory.mktemp("results"))
    return run_figures(FIGURES, "tiny", store, processes=1)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("figures")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.id)
def test_a_figure_in_tiny(figure: Figure, ran: Ran, out: Path) -> None:
    pytest.importorskip("matplotlib", reason="the figures are drawn by matplotlib, of the extra 'figures'")
    shown: Shown = show(figure, "tiny", ran.results, EXPECTED[figure.id], out)
    assert not shown.left_out
    base = out / figure.paper / figure.name
    rows = read_rows(base.with_suffix(".csv"))
    assert len(rows) == len(shown.rows) > 0
    assert {row.figure for row in rows} == {figure.name}
    assert all(row.value == row.value for row in rows)
    named = {row.series for row in rows}
    for judged in shown.judged:
        wanted = {judged.claim.first, judged.claim.second} - {""}
        assert wanted <= named, f"the claim {judged.claim.says!r} is about a series that is not there"
    assert base.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    ElementTree.parse(base.with_suffix(".svg"))
    assert shown.svg.startswith("<svg role=")


@pytest.mark.parametrize("figure", OF_COMPARISON, ids=lambda figure: figure.id)
def test_nobody_exceeds_the_clairvoyant(figure: Figure, ran: Ran) -> None:
    """Of the same scenario, that is: series with changes have other keys."""
    plain = {line.name for line in figure.series if not line.changes}
    rows = figure.rows("tiny", ran.results)
    bounds = {(row.device, row.x): row.value for row in rows if row.source == "bound"}
    assert bounds
    for row in rows:
        # In so short a run adaptive's room is still filling, and rows count when they come in.
        if row.source == "measured" and row.series in plain - {"adaptive"}:
            # Intervals are short: a sample's hits are above or below their mean, and rows count before their output does.
            slack = 1.07
            assert row.value <= slack * bounds[row.device, row.x], row


def test_comparisons_have_adaptive_and_both_devices() -> None:
    for figure in OF_COMPARISON:
        assert "adaptive" in {line.variant.algorithm for line in figure.series}, figure.id
        assert set(figure.devices) == {"hdd2012", "nvme"}, figure.id


def test_every_figure_has_claims_and_every_claim_a_figure() -> None:
    assert set(EXPECTED) == {figure.id for figure in FIGURES}


def test_unknown_figures_are_named() -> None:
    with pytest.raises(ConfigError, match="fig99"):
        load_figures(EXPERIMENTS, ["skewed/fig99"])
    with pytest.raises(ConfigError, match="no figures"):
        load_figures(EXPERIMENTS / "skewed")
