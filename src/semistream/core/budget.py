"""One byte budget for everything a join holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from semistream.errors import BudgetError


@dataclass(eq=False)
class MemoryBudget:
    """The sum of all reservations never exceeds `total_bytes`; the highest sum is kept as `peak_bytes`.

    Parts reserve before they allocate. A refusal names who holds what, so that the caller can make room
    (drain, evict) or fail with a message one can act on. Not thread-safe: one budget belongs to one task.

    >>> budget = MemoryBudget(100)
    >>> room = budget.reserve("waiting room", 60)
    >>> room.resize(80)
    >>> budget.held_bytes, budget.peak_bytes
    (80, 80)
    """

    total_bytes: int
    peak_bytes: int = 0
    _reservations: list[Reservation] = field(default_factory=list)

    @property
    def held_bytes(self) -> int:
        return sum(reservation.size_bytes for reservation in self._reservations)

    @property
    def left_bytes(self) -> int:
        return self.total_bytes - self.held_bytes

    def reserve(self, name: str, size_bytes: int) -> Reservation:
        """A named share of the budget; BudgetError if it does not fit."""
        reservation = Reservation(self, name)
        self._reservations.append(reservation)
        try:
            reservation.resize(size_bytes)
        except BudgetError:
            self._reservations.remove(reservation)
            raise
        return reservation

    def by_name(self) -> dict[str, int]:
        held: dict[str, int] = {}
        for reservation in self._reservations:
            held[reservation.name] = held.get(reservation.name, 0) + reservation.size_bytes
        return held

    def check_invariants(self) -> None:
        assert 0 <= self.held_bytes <= self.peak_bytes <= self.total_bytes, self.by_name()

    def _refuse(self, name: str, wanted_bytes: int) -> BudgetError:
        held = ", ".join(f"{who} {size:,}" for who, size in self.by_name().items() if size) or "nothing"
        return BudgetError(
            f"'{name}' asked for {wanted_bytes:,} more bytes; {self.left_bytes:,} of "
            f"{self.total_bytes:,} are left (held: {held}).",
            hint="give the join more memory, or ask for fewer columns.",
        )


@dataclass(eq=False)
class Reservation:
    """A part's share of the budget; give it back with `resize(0)`."""

    budget: MemoryBudget
    name: str
    size_bytes: int = 0

    def resize(self, size_bytes: int) -> None:
        """Grow or shrink to `size_bytes`; BudgetError, and no change, if the growth does not fit."""
        growth = size_bytes - self.size_bytes
        if growth > self.budget.left_bytes:
            raise self.budget._refuse(self.name, growth)
        self.size_bytes = size_bytes
        self.budget.peak_bytes = max(self.budget.peak_bytes, self.budget.held_bytes)


_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "k": 2**10, "m": 2**20, "g": 2**30}


def parse_bytes(size: int | str, *, name: str) -> int:
    """Bytes from a number or from text such as "64 MiB", "1.5GB" or "8 KiB".

    >>> parse_bytes("8 KiB", name="page_size")
    8192
    """
    if isinstance(size, int) and not isinstance(size, bool):
        parsed = float(size)
    else:
        text = str(size).strip().lower()
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ").strip()
        unit = text[len(digits) :].strip()
        try:
            parsed = float(digits.replace("_", "").replace(",", "")) * _UNITS[unit]
        except (ValueError, KeyError):
            parsed = -1.0
    if not 1 <= parsed < 2**62:
        raise BudgetError(
            f"{name}={size!r} is not a size in bytes.", hint='write it like "64 MiB" or 67108864.'
        )
    return int(parsed)


def format_bytes(size_bytes: float) -> str:
    """
    >>> format_bytes(3 * 2**20)
    '3.0 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
