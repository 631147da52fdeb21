"""The line between front stage and waiting room: where a byte is worth the same on both sides.

A stream row costs (1 - p) c(H) on average, with p the share that the front stage answers and c(H) the seconds of reading
R for one of H rows that wait together. One more byte for the front stage saves p' (c + c_p), with p' its hits per
byte at the margin and c_p what a processor spends on a row that is not answered. One more byte for the waiting room
saves (1 - p) e c / bytes, with e = -d ln c / d ln H. So the line stands well where

    p' (c + c_p) bytes of the room = (1 - p) e c.

Where R is scanned e is 1, and this is the cache inequality (003 Theorem 2) between the last key that is cached and the
rows that wait for it. Where lone pages are looked up e is 0: all is the front stage's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

STEP_SHARE = 1 / 24  # of what is exchanged moves at a time
DEAD_BAND = 1.25  # estimates are no better than that


@dataclass
class Reading:
    """What the rows that wait cost, as the access path sees it: c, c_p and e."""

    row_seconds: float = 0.0
    processor_seconds: float = 1e-6
    elasticity: float = 0.0


class Split(Protocol):
    """How large the front stage may be."""

    @property
    def front_bytes(self) -> int: ...

    @property
    def elasticity(self) -> float:
        """e; 0 while nothing is known of it."""

    def weigh(self, *, hits_per_byte: Callable[[], float], hit_ratio: float) -> None:
        """Is told what the last byte of the front stage is worth."""


@dataclass(frozen=True, kw_only=True)
class FixedSplit:
    """It always has the same bytes."""

    front_bytes: int
    elasticity: float = 0.0

    def weigh(self, *, hits_per_byte: Callable[[], float], hit_ratio: float) -> None:
        """Nothing changes."""


class Exchange:
    """Divides `shared_bytes`; each side keeps its least.

    >>> scanned = Reading(row_seconds=1e-3, elasticity=1.0)
    >>> exchange = Exchange(2400, front_bytes=1200, front_bytes_min=100, room_bytes_min=100, reading=scanned)
    >>> exchange.weigh(hits_per_byte=lambda: 1e-9, hit_ratio=0.2)
    >>> exchange.front_bytes, exchange.room_bytes
    (1104, 1296)
    """

    def __init__(
        self,
        shared_bytes: int,
        *,
        front_bytes: int,
        front_bytes_min: int,
        room_bytes_min: int,
        reading: Reading,
    ) -> None:
        self.reading = reading
        self._shared_bytes, self.front_bytes = shared_bytes, front_bytes
        self._least, self._most = front_bytes_min, shared_bytes - room_bytes_min
        self._step_bytes = max(8, int(shared_bytes * STEP_SHARE) // 8 * 8)

    @property
    def elasticity(self) -> float:
        return self.reading.elasticity

    @property
    def room_bytes(self) -> int:
        return self._shared_bytes - self.front_bytes

    def weigh(self, *, hits_per_byte: Callable[[], float], hit_ratio: float) -> None:
        """Moves the line by a step if one side gains clearly more by it than the other one loses."""
        reading = self.reading
        cached = hits_per_byte() * self.room_bytes * (reading.row_seconds + reading.processor_seconds)
        waiting = (1 - hit_ratio) * reading.elasticity * reading.row_seconds
        if cached > DEAD_BAND * waiting:
            self.front_bytes = max(self.front_bytes, min(self.front_bytes + self._step_bytes, self._most))
        elif waiting > DEAD_BAND * cached:
            self.front_bytes = min(self.front_bytes, max(self.front_bytes - self._step_bytes, self._least))
