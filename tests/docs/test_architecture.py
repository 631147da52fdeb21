"""ARCHITECTURE.md names files, classes and parts that are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import semistream
from semistream.core.contracts import AccessPath, FrontStage, WaitingRoom
from semistream.front_stage.registry import FRONT_STAGES
from semistream.joins import PAGES
from semistream.testing.discovery import implementations

ROOT = Path(semistream.__file__).parent
TEXT = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", TEXT)))
PARTS = {"front stage": FrontStage, "waiting room": WaitingRoom, "access path": AccessPath}


@pytest.mark.parametrize("name", [each for each in QUOTED if re.fullmatch(r"[\w/]+(\.py|/)", each)])
def test_files_it_names_are_there(name: str) -> None:
    name = name.removeprefix("semistream/")
    assert (ROOT / name).exists() or list(ROOT.rglob(f"*{name}"))


@pytest.mark.parametrize(
    "name",
    [each for each in QUOTED if re.fullmatch(r"(joins|simulation|memory_split)\.[\w.]+(?<!\.py)", each)],
)
def test_what_it_names_in_a_module_is_there(name: str) -> None:
    head, *rest = name.split(".")
    found = importlib.import_module(f"semistream.{head}")
    for part in rest:
        if not hasattr(found, part):
            found = importlib.import_module(f"{found.__name__}.{part}")
        else:
            found = getattr(found, part)


@pytest.mark.parametrize("part", PARTS)
def test_the_table_of_parts_lists_every_implementation(part: str) -> None:
    (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| {part} |")]
    listed = set(re.findall(r"`(\w+)`", row.split("|")[3]))
    if part == "front stage":
        assert listed == {*FRONT_STAGES, PAGES}
    else:
        package = f"semistream.{part.replace(' ', '_')}"
        assert listed == {kind.__module__.split(".")[-1] for kind in implementations(PARTS[part], package)}
