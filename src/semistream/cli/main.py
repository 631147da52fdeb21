"""The command `semistream`: reads the arguments, runs one command, turns every error into a line and a hint.

Exit status: 0 done, 1 an error that was explained, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Sequence

import semistream
from semistream.cli import bench, clean, demo, figures, generate, info, join, plan, prepare, simulate, verify
from semistream.errors import SemistreamError

COMMANDS = (plan, prepare, info, join, verify, clean, generate, simulate, figures, demo, bench)
STATUS_FAILED, STATUS_INTERRUPTED = 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit status; only argparse exits by itself, with status 2."""
    arguments = parser().parse_args(argv)
    if not arguments.debug:
        # The bridge to Java logs tracebacks of failures that reach us as exceptions anyway.
        logging.disable(logging.CRITICAL)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; without this Python complains once more while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STATUS_FAILED
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return STATUS_INTERRUPTED
    except Exception as error:  # noqa: BLE001  (the one place that turns all errors into words)
        if arguments.debug:
            traceback.print_exc()
        _complain(_explained(error))
        return STATUS_FAILED
    return 0


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="semistream",
        description="Join a fast stream with a large master table on Spark, within one byte budget.",
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"semistream {semistream.__version__}")
    root.add_argument(
        "--debug", action="store_true", help="show the traceback of an error, and what Spark logs"
    )
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2]
        text = (module.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(name, help=_as_help(text), description=text, allow_abbrev=False)
        # SUPPRESS: a --debug before the command's name must not be reset behind it.
        command.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return root


def _as_help(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _explained(error: Exception) -> SemistreamError:
    if isinstance(error, SemistreamError):
        return error
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in (
        "pyspark",
        "py4j",
        "pandas",
    ):
        return SemistreamError(
            f"this command needs PySpark, but '{error.name}' is not installed.",
            hint='pip install "semistream[spark]"',
        )
    if type(error).__module__.split(".")[0] in ("pyspark", "py4j"):
        from semistream.spark.failures import readable

        return readable(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return SemistreamError(f"{where}{error.strerror}.", hint="--debug shows where this happened.")
    return SemistreamError(
        f"unexpected {type(error).__name__}: {error}", hint="please report this, with the output of --debug."
    )


def _complain(error: SemistreamError) -> None:
    print(f"error: {' '.join(error.message.split())}", file=sys.stderr)
    print(f"Hint: {' '.join(error.hint.split())}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
