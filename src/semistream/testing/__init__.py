"""Contract suites for the exchangeable parts of the loop; they need pytest and Hypothesis.

    from semistream.testing import FrontStageContract

    class TestFrontStages(FrontStageContract):
        '''Runs every test of the suite against every front stage of the package.'''

Each suite finds the implementations in its part's folder by their verbs. One that the suite cannot make yet
fails `test_can_be_made`, so a new algorithm cannot stay untested by accident.
"""

from semistream.testing.access_path import AccessPathContract
from semistream.testing.block_file import BlockFileContract
from semistream.testing.front_stage import FrontStageContract
from semistream.testing.waiting_room import WaitingRoomContract

__all__ = ["AccessPathContract", "BlockFileContract", "FrontStageContract", "WaitingRoomContract"]
