"""What every test may rely on: one Spark session for the whole run, and Hypothesis without a stopwatch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first example that reaches a kernel compiles it, which says nothing about the code under test.
settings.register_profile(
    "semistream", parent=settings.get_profile("ci" if os.environ.get("CI") else "default"), deadline=None
)
settings.load_profile("semistream")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two cores, shared by all tests: leave no running query and no changed setting."""
    from semistream.spark.session import local_session

    session = local_session("semistream-tests", cores=2)
    yield session
    session.stop()
