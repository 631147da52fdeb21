"""Who left the loop: told to whoever has to know, which is nobody but an output that keeps the stream's order."""

from __future__ import annotations

from typing import Protocol

from semistream.core.contracts import Answers, Arrivals, Matches


class Departures(Protocol):
    """Is told of rows that leave the loop, once each time they do, after all their output was handed to the output."""

    def answered(self, arrivals: Arrivals, at: int, answers: Answers) -> None:
        """Of the rows at, at + 1, ... all but the misses: the front stage answered them, or their key is null."""

    def served(self, matches: Matches) -> None:
        """Those who waited for the keys that are leaving."""


class Unobserved:
    """Nobody has to know."""

    def answered(self, arrivals: Arrivals, at: int, answers: Answers) -> None:
        pass

    def served(self, matches: Matches) -> None:
        pass
