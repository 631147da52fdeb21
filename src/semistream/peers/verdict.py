"""Where we are not first, in sentences that the numbers make."""

from __future__ import annotations

from collections.abc import Iterable

from semistream.peers.registry import OURS, PEERS
from semistream.peers.results import Cell, Place, by_place, short_rate


def not_first(cells: Iterable[Cell]) -> list[str]:
    """A sentence for each cell in which another contestant of the same kind had more rows/s, or ours did not run."""
    return [sentence for place, found in by_place(cells).items() for sentence in _sentences(place, found)]


def counted(cells: Iterable[Cell]) -> list[str]:
    """How often ours is first, where the table does not fit the memory allowed and where it does."""
    found = list(cells)
    lines = []
    for family, ours in OURS.items():
        for fits, where in ((False, "does not fit"), (True, "fits")):
            groups = [
                (place, group)
                for place, group in by_place(cell for cell in found if cell.fits_in_memory is fits).items()
                if ours in group and len(_others(group, ours)) > 0
            ]
            if groups:
                first = sum(not _ahead(group, ours) and group[ours].failed is None for _, group in groups)
                kind = "on Spark" if family == "spark" else "without Spark"
                lines.append(
                    f"Where the table {where} in the memory allowed, ours {kind} is first in {first} of {len(groups)} cells."
                )
    return lines


def _sentences(place: Place, found: dict[str, Cell]) -> list[str]:
    sentences = []
    for ours in OURS.values():
        if ours not in found or not _others(found, ours):
            continue
        mine = found[ours]
        fits = "" if mine.fits_in_memory else " (the table does not fit)"
        title = PEERS[ours].title
        if mine.rows_s is None:
            sentences.append(f"{place}{fits}: {title} did not run: {mine.failed}")
        elif ahead := _ahead(found, ours):
            named = ", ".join(
                f"{PEERS[cell.peer].title} {short_rate(cell.rows_s)} rows/s ({cell.rows_s / mine.rows_s:.2f} times)"
                for cell in ahead
                if cell.rows_s is not None
            )
            sentences.append(f"{place}{fits}: {title} {short_rate(mine.rows_s)} rows/s, behind {named}.")
    return sentences


def _others(found: dict[str, Cell], ours: str) -> list[Cell]:
    """Those of the same kind that ran."""
    family = PEERS[ours].family
    return [
        cell
        for name, cell in found.items()
        if name != ours and name in PEERS and PEERS[name].family == family and cell.rows_s is not None
    ]


def _ahead(found: dict[str, Cell], ours: str) -> list[Cell]:
    """Those with more rows/s, the fastest first."""
    mine = found[ours].rows_s or 0.0
    ahead = [cell for cell in _others(found, ours) if (cell.rows_s or 0.0) > mine]
    return sorted(ahead, key=lambda cell: -(cell.rows_s or 0.0))
