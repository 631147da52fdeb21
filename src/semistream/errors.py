"""The errors a user can meet. Each says what was asked, what was found, and what to do next."""

from __future__ import annotations


class SemistreamError(Exception):
    """Base of every error raised on purpose: one readable line, and a hint."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nHint: {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process boundaries; the default protocol cannot pass keyword-only arguments.
        return _rebuild, (type(self), self.message, self.hint)


def _rebuild(kind: type[SemistreamError], message: str, hint: str) -> SemistreamError:
    return kind(message, hint=hint)


class ConfigError(SemistreamError):
    """An argument is out of range, unknown, or contradicts another."""


class SchemaError(SemistreamError):
    """Columns are missing, clash, or have types that cannot be joined or stored."""


class StoreError(SemistreamError):
    """A path is not the store it should be, or is in the way of one."""


class CorruptionError(StoreError):
    """Bytes read back are not the bytes that were written. Never answered with a guess."""


class BudgetError(SemistreamError):
    """The memory allowed is less than a part needs to work at all."""
