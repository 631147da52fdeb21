"""The shipped contract suites, run against every implementation in the package."""

from __future__ import annotations

import pytest

from semistream.core.contracts import AccessPath, FrontStage, WaitingRoom
from semistream.front_stage.density import DensityFrontStage
from semistream.front_stage.none import NoFrontStage
from semistream.master_table.files import BlockFile
from semistream.testing import AccessPathContract, BlockFileContract, FrontStageContract, WaitingRoomContract
from semistream.testing.discovery import implementations, make, verbs_of


class TestFrontStages(FrontStageContract):
    pass


class TestWaitingRooms(WaitingRoomContract):
    pass


class TestAccessPaths(AccessPathContract):
    pass


class TestBlockFiles(BlockFileContract):
    pass


def test_the_search_finds_what_is_there() -> None:
    found = set(implementations(FrontStage, "semistream.front_stage"))
    assert found >= {NoFrontStage, DensityFrontStage}
    assert implementations(WaitingRoom, "semistream.waiting_room")
    assert implementations(AccessPath, "semistream.access_path")
    assert implementations(BlockFile, "semistream.master_table.files")
    assert not implementations(FrontStage, "semistream.access_path")


def test_contracts_are_small() -> None:
    for contract in (FrontStage, WaitingRoom, AccessPath):
        assert len(verbs_of(contract) - {"check_invariants", "close"}) <= 5


def test_an_implementation_without_a_maker_fails_its_suite() -> None:
    with pytest.raises(AssertionError, match="NoFrontStage has no entry in MAKERS"):
        make({}, NoFrontStage)
