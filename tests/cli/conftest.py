"""One prepared store for all tests here."""

from __future__ import annotations

import pytest
from tests.command_line import World, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))
