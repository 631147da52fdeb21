"""How the commands talk: one console, one look of progress bars, one way to write numbers."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def console() -> Console:
    return Console(highlight=False)


def progress_bar(unit: str, *, on: Console) -> Progress:
    """Shows `completed` of `total` in `unit`, and the text in the field `note`."""
    return Progress(
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=on,
        # Where there is no terminal a bar is a single line at the end, and the summary says the same.
        disable=not on.is_terminal,
    )


def names(text: list[str] | None) -> list[str] | None:
    """The names in options that take several: each may be repeated, or hold names separated by commas."""
    if text is None:
        return None
    return [name.strip() for each in text for name in each.split(",") if name.strip()]
