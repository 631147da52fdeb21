"""Whose turn it is: stream rows are numbered as they come in, and a row's turn has come when all before it have left."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core import _order_kernels as kernels
from semistream.core.contracts import I64, Answers, Arrivals, Matches

NUMBER = pa.field("number of the stream row", pa.int64())
LEFT, GIVEN_UP = np.uint8(1), np.uint8(2)
ROWS_MIN = 256


class Turns:
    """`Departures`: what is known of the rows `oldest` .. `next - 1`, those before have left, each in its turn.

    The rows' numbers are in the column `position` of their batches. `held` of them have left before their turn; the
    output of `given_up` was given up, so that they come in again when it is their turn, whether they have left yet or
    not. Each was charged some bytes, `charged` in all. Memory: ROW_BYTES for each.
    """

    ROW_BYTES = 2 * (1 + 8)  # arrays grow twofold

    def __init__(self, position: int) -> None:
        self._position = position
        self.oldest = self.next = 0
        self.held = self.given_up = self.charged = 0
        self.departures = 0
        self._base = 0
        self._flags: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._charges: I64 = np.zeros(0, np.int64)

    @property
    def in_flight(self) -> int:
        """Rows whose turn has not come."""
        return self.next - self.oldest

    @property
    def is_given_up(self) -> bool:
        """Has the oldest left, its output given up?"""
        return self.in_flight > 0 and bool(self._flags[self.oldest - self._base] == LEFT | GIVEN_UP)

    def enter(self, charges: I64) -> None:
        """The next rows come in."""
        self._make_room(charges.size)
        at = self.next - self._base
        self._flags[at : at + charges.size] = 0
        self._charges[at : at + charges.size] = charges
        self.next += charges.size
        self.charged += int(charges.sum())

    def answered(self, arrivals: Arrivals, at: int, answers: Answers) -> None:
        numbers = arrivals.batch.column(self._position).to_numpy()[at : at + answers.entries.size]
        self._leave(numbers[answers.entries != 0] if answers.misses else numbers)

    def served(self, matches: Matches) -> None:
        waiting = matches.waiting
        rows = np.empty(int(matches.sightings[matches.leaving].sum()), np.int64)
        kernels.leaving_rows(waiting.order, waiting.starts, matches.first_key, matches.leaving, rows)
        if rows.size:
            self._leave(waiting.rows.numbers(self._position, rows))

    def charges_from(self, first: int) -> I64:
        """Of the rows from this number on."""
        return self._charges[first - self._base : self.next - self._base]

    def are_given_up(self, numbers: I64) -> npt.NDArray[np.bool_]:
        """For rows whose turn has not come; and false for those whose has."""
        places = numbers - self._base
        return (places >= 0) & (self._flags[np.maximum(places, 0)] & GIVEN_UP > 0)

    def have_left(self, numbers: I64) -> npt.NDArray[np.bool_]:
        return self._flags[numbers - self._base] & LEFT > 0

    def give_up(self, numbers: I64) -> None:
        self._flags[numbers - self._base] |= GIVEN_UP
        self.given_up += numbers.size

    def enter_again(self, numbers: I64) -> None:
        """Rows that were given up, and have left."""
        self._flags[numbers - self._base] = 0
        self.given_up -= numbers.size
        self.held -= numbers.size

    def check_invariants(self) -> None:
        flags = self._flags[self.oldest - self._base : self.next - self._base]
        assert self.held == np.count_nonzero(flags & LEFT)
        assert self.given_up == np.count_nonzero(flags & GIVEN_UP)
        assert self.charged == self.charges_from(self.oldest).sum()
        assert not flags.size or flags[0] != LEFT

    # -- inside ------------------------------------------------------------------------------------------

    def _leave(self, numbers: I64) -> None:
        self._flags[numbers - self._base] |= LEFT
        self.departures += numbers.size
        at = self.oldest - self._base
        stop = int(kernels.first_other(self._flags, at, self.next - self._base, LEFT))
        self.held += numbers.size - (stop - at)
        self.charged -= int(self._charges[at:stop].sum())
        self.oldest += stop - at

    def _make_room(self, rows: int) -> None:
        if self.next - self._base + rows <= self._flags.size:
            return
        first, stop = self.oldest - self._base, self.next - self._base
        size = max(ROWS_MIN, 2 * (stop - first + rows))
        flags, charges = np.zeros(size, np.uint8), np.zeros(size, np.int64)
        flags[: stop - first], charges[: stop - first] = self._flags[first:stop], self._charges[first:stop]
        self._flags, self._charges, self._base = flags, charges, self.oldest
