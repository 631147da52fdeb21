"""A local Spark session that leaves the terminal to us."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

from pyspark.sql import SparkSession

from semistream.spark.session import local_session


def available_cores() -> int:
    """The processors this process may use, which in a container are fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def quiet_session(
    app_name: str,
    *,
    cores: int | None = None,
    debug: bool = False,
    driver_memory: str = "2g",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session that prints nothing, neither Spark nor its Java; with `debug` both print what is wrong.

    For programs that report failures themselves, see `failures.readable`. `cores`: tasks at once, default:
    all processors.
    """
    with contextlib.nullcontext() if debug else _stderr_closed_to_children():
        return local_session(
            app_name,
            cores=cores or available_cores(),
            driver_memory=driver_memory,
            log_level="ERROR" if debug else "OFF",
            conf=conf,
        )


@contextlib.contextmanager
def _stderr_closed_to_children() -> Iterator[None]:
    """Programs started meanwhile write their stderr to nowhere, for all their life.

    Java warns about incubator modules before any of its settings could say not to, and Spark gives no way
    to redirect it.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
