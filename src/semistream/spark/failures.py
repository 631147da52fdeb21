"""What went wrong, in words: our own errors dug out of the text that Spark wraps around them.

An error raised inside a task reaches the driver as text: a Python traceback within a Java one within the
failure of a query, followed by its plan. The line one needs is in the middle.
"""

from __future__ import annotations

import re

from semistream import errors
from semistream.errors import SemistreamError

# As Python prints an exception of ours: its qualified name, the message, and the hint on a line of its own.
_OURS = re.compile(r"^semistream\.errors\.(\w+): (.+?)\nHint: (.+?)[ ]*$", re.MULTILINE | re.DOTALL)
# As Spark prints its own: a condition in brackets, the message, and an SQLSTATE or the stack behind it.
_SPARKS = re.compile(
    r"\[(?P<condition>[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] (?P<message>.+?)"
    r"(?=\s+SQLSTATE: |\n\s*at |\n=== |\[[A-Z][A-Z0-9_.]*\] |\Z)",
    re.DOTALL,
)
_WRAPPERS = ("STREAM_FAILED",)
_SQLSTATE = re.compile(r"(\s*SQLSTATE: \w+)+\s*$")
_JAVA_FRAME = re.compile(r"^\s+at ")
_CLASS_NAME = re.compile(r"^:? ?(?:[\w$]+\.)+[\w$]*(?:Exception|Error): ")
_ONE_LINE_CHARACTERS_MAX = 500


def readable(error: BaseException) -> SemistreamError:
    """The error that a failed query, or any other call of Spark, is about; one line and a hint.

    Guarantee: an error that this package raised in a task comes back with its own type, message and hint.
    Anything else becomes a `SemistreamError` with the innermost of Spark's own messages. Never raises.

        try:
            query.awaitTermination()
        except StreamingQueryException as failure:
            raise readable(failure) from failure
    """
    if isinstance(error, SemistreamError):
        return error
    text = str(error)
    return own_error(text) or SemistreamError(
        f"Spark failed: {_short(_spark_message(text) or type(error).__name__)}",
        hint="the whole text is in Spark's exception; the command line shows it with --debug.",
    )


def own_error(text: str) -> SemistreamError | None:
    """The first of our own errors that is printed in `text`, rebuilt; None if there is none."""
    found = _OURS.search(text)
    if found is None:
        return None
    name, message, hint = found.groups()
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, SemistreamError)):
        kind = SemistreamError  # an older or newer release on the worker
    return kind(message, hint=hint)


def _spark_message(text: str) -> str:
    """The innermost message: what Spark, or Python in a worker, said first."""
    said = [found for found in _SPARKS.finditer(text) if found["condition"] not in _WRAPPERS]
    message = said[-1]["message"] if said else text
    if "Traceback (most recent call last)" in message:
        return _last_line(message)
    if said:
        return f"[{said[-1]['condition']}] {message}"
    lines = [line for line in text.splitlines() if line.strip() and not _JAVA_FRAME.match(line)]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling "):
        lines = lines[1:]
    return _CLASS_NAME.sub("", lines[0]) if lines else ""


def _last_line(traceback: str) -> str:
    lines = [line for line in _SQLSTATE.sub("", traceback).splitlines() if line.strip()]
    # Behind the exception's own line there may be the rest of a message of several lines.
    at = max((i for i, line in enumerate(lines) if line.startswith((" ", "Traceback"))), default=-1)
    return " ".join(lines[at + 1 :])


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return (
        one_line
        if len(one_line) <= _ONE_LINE_CHARACTERS_MAX
        else one_line[:_ONE_LINE_CHARACTERS_MAX] + " ..."
    )
