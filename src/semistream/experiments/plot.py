"""A figure's rows as a picture: one panel for each device, one line for each series."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semistream.errors import SemistreamError
from semistream.experiments.figure import Figure
from semistream.experiments.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

_PANEL_INCHES, _HEIGHT_INCHES, _DPI = 4.3, 3.1, 110
# The same algorithm has the same colour in all figures (Okabe and Ito's, which most eyes can tell apart).
_COLOURS = {
    "meshjoin": "#0072B2", "cmeshjoin": "#56B4E9", "hybridjoin": "#D55E00", "chybridjoin": "#E69F00",
    "inlj": "#8C564B", "cinlj": "#C49C94", "ssbj": "#CC79A7", "rmeshjoin": "#999999",
    "adaptive": "#009E73", "clairvoyant": "#000000",
}  # fmt: skip
_MORE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#666666", "#000000")
_MARKERS = "os^Dv<>P*X"


def draw(figure: Figure, rows: Sequence[Row], base: Path) -> str:
    """Writes `base`.svg and .png, and returns the SVG for the page. The same rows make the same bytes."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Picture
    except ModuleNotFoundError:
        raise SemistreamError(
            "the figures are drawn by matplotlib, which is not installed.",
            hint='pip install "semistream[figures]"',
        ) from None
    style: dict[str, Any] = {
        "svg.hashsalt": figure.id,
        "svg.fonttype": "none",
        "font.size": 9,
        "font.family": "sans-serif",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(style):
        panels = [device for device in figure.devices if any(row.device == device for row in rows)] or [""]
        picture = Picture(figsize=(_PANEL_INCHES * len(panels), _HEIGHT_INCHES), layout="constrained")
        axes = picture.subplots(1, len(panels), squeeze=False)[0]
        for place, device in zip(axes, panels, strict=True):
            _panel(place, figure, [row for row in rows if row.device in ("", device)], device)
        _legend(picture, axes)
        base.parent.mkdir(parents=True, exist_ok=True)
        picture.savefig(base.with_suffix(".png"), dpi=_DPI)
        text = io.StringIO()
        picture.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    base.with_suffix(".svg").write_text(svg)
    return _inline(svg, figure.title)


def _panel(axes: Axes, figure: Figure, rows: Sequence[Row], device: str) -> None:
    names = list(dict.fromkeys(row.series for row in rows))
    shared = len({_algorithm_of(name, rows) for name in names}) < len(names)
    for number, name in enumerate(names):
        line = sorted((row for row in rows if row.series == name), key=lambda row: row.x)
        axes.errorbar(
            [row.x for row in line],
            [row.value for row in line],
            yerr=[row.plus_minus or 0.0 for row in line] if any(row.plus_minus for row in line) else None,
            label=name,
            **_style(line[0], number, names, shared=shared),
        )
    names_of_x = {row.x: row.x_label for row in rows if row.x_label}
    if names_of_x:
        axes.set_xticks(list(names_of_x), list(names_of_x.values()))
    elif figure.x.log:
        axes.set_xscale("log")
    if figure.y.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.ticklabel_format(
            axis="y", style="plain" if axes.get_ylim()[1] < 1e4 else "sci", scilimits=(0, 4)
        )
    axes.set_xlabel(figure.x.label)
    axes.set_ylabel(figure.y.label)
    axes.set_title(device, fontsize=9, loc="left")
    axes.grid(alpha=0.25, linewidth=0.6)


def _style(row: Row, number: int, names: Sequence[str], *, shared: bool) -> dict[str, Any]:
    plain = {"linewidth": 1.3, "markersize": 4, "capsize": 2, "elinewidth": 0.8}
    if row.source == "bound":
        return plain | {"color": "black", "linestyle": ":", "marker": ""}
    if row.source == "given":
        return plain | {"color": "#888888", "linestyle": "-.", "marker": ""}
    predicted = row.source == "predicted"
    first = row.series.removesuffix(", predicted")
    number = list(dict.fromkeys(name.removesuffix(", predicted") for name in names)).index(first)
    own = row.series.removesuffix(", predicted") == row.algorithm or not shared
    colour = _COLOURS.get(row.algorithm) if own else None
    return plain | {
        "color": colour or _MORE[number % len(_MORE)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": "--" if predicted else "-",
        "markerfacecolor": "white" if predicted else None,
    }


def _algorithm_of(name: str, rows: Sequence[Row]) -> str:
    return next(row.algorithm + row.source for row in rows if row.series == name)


def _legend(picture: Picture, axes: Sequence[Axes]) -> None:
    handles: dict[str, Any] = {}
    for place in axes:
        for handle, name in zip(*place.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    picture.legend(
        list(handles.values()), list(handles), loc="outside right center", frameon=False, fontsize=8
    )


def _inline(svg: str, title: str) -> str:
    """Without the XML prologue, scaled by the page, and with a name for those who cannot see it."""
    body = svg[svg.index("<svg") :]
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{escaped}" ', body, count=1)
