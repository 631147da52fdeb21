"""The figures of a directory: `<paper>/figNN.py`, each with its FIGURE."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from semistream.errors import ConfigError
from semistream.experiments.claims import Expected, read_expected
from semistream.experiments.figure import PAPERS, Figure

EXPECTED = "expected.toml"


def load_figures(directory: Path, only: list[str] | None = None) -> list[Figure]:
    """In the order of papers and names; `only` names papers or figures, such as skewed or skewed/fig05a."""
    found = [_load(path) for paper in PAPERS for path in sorted((directory / paper).glob("fig*.py"))]
    if not found:
        raise ConfigError(
            f"there are no figures in {directory}.", hint="run this in the repository, or pass --experiments."
        )
    if not only:
        return found
    chosen = [figure for figure in found if figure.id in only or figure.paper in only]
    missing = [name for name in only if not any(name in (figure.id, figure.paper) for figure in found)]
    if missing:
        raise ConfigError(
            f"there is no figure {', '.join(missing)}.",
            hint=f"choose of: {', '.join(figure.id for figure in found)}.",
        )
    return chosen


def load_expected(directory: Path, figures: list[Figure]) -> Expected:
    """ConfigError for a figure without a claim: a plot that nothing is said about is none of the papers'."""
    expected = read_expected(directory / EXPECTED)
    silent = [figure.id for figure in figures if not expected.get(figure.id)]
    if silent:
        raise ConfigError(
            f"{EXPECTED} claims nothing about {', '.join(silent)}.", hint="add what the paper says."
        )
    return expected


def _load(path: Path) -> Figure:
    name = f"semistream_experiments_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figure = getattr(module, "FIGURE", None)
    if not isinstance(figure, Figure) or figure.id != f"{path.parent.name}/{path.stem}":
        raise ConfigError(
            f"{path} has no FIGURE of that paper and name.", hint="set paper and name as in the path."
        )
    return figure
