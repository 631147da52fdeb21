"""A quiet Spark session on this machine, for the command line, the demo, the benchmark and the tests.

Applications bring their own session; the join needs nothing of this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from semistream.spark.java import ensure_java

LogLevel = Literal["OFF", "ERROR", "WARN", "INFO"]

# For comparing joins on one machine; every side runs with them.
COMPARISON_CONF = {
    # Spark at its best: with the default of 10 MB it would shuffle and sort the whole table for every batch of
    # 1 M rows (13 instead of 3 s at 10 M rows). With this it sends each batch to all tasks as a hash table and
    # streams the table past it. The smallest table of the benchmark is larger than this limit.
    "spark.sql.autoBroadcastJoinThreshold": "64MB",
    # On a local path the default manager starts a dozen `readlink` and `chmod` processes a batch, which is 0.1 s
    # of every batch of every side here and nothing on a cluster's file system.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

_JVM_OPTIONS = "spark.driver.extraJavaOptions"


def local_session(
    app_name: str,
    *,
    cores: int = 2,
    driver_memory: str = "2g",
    log_level: LogLevel = "ERROR",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session with `cores` task slots in this process's JVM, reachable from this machine only.

    Workers run the Python that runs this; times are in UTC; shuffles make `cores` partitions. `conf`
    wins over every setting made here. A session that is active already is returned with the SQL settings
    changed, and a JVM that runs already keeps its memory and Java options: Spark cannot change those.

    Parameters
    ----------
    app_name
        the name in Spark's logs
    cores
        tasks that run at once
    driver_memory
        heap of the JVM, which in local mode holds the executor too
    log_level
        what the JVM may print to stderr. "OFF" is for callers that report failures themselves.
    conf
        further Spark settings
    """
    ensure_java()
    # Otherwise Spark takes the first python3 on the PATH, which need not have this package.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings: dict[str, bool | float | int | str | None] = {
        # Other addresses may be unreachable (VPN, container) or open to the network.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        # Queries without a checkpoint (noop and memory sinks) leave nothing in the temporary directory.
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        **(conf or {}),
    }
    settings[_JVM_OPTIONS] = _jvm_options(str(settings.get(_JVM_OPTIONS, "")), log_level)
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app_name).config(map=settings)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session


def _jvm_options(given: str, log_level: LogLevel) -> str:
    """Add our log4j configuration to the JVM options, unless they name one.

    Spark prints a dozen lines before anyone can call `setLogLevel`: only a configuration that log4j
    loads itself, at its start, comes early enough. Errors still get through. One line is out of reach
    (the JVM's own, about incubator modules), and our Java wrapper is free of it.
    """
    if "log4j2.configurationFile" in given:
        return given
    # As a URI, since Spark splits the options at blanks and log4j the value at commas.
    configuration = Path(str(files("semistream.spark") / "log4j2.properties")).resolve().as_uri()
    ours = f"-Dlog4j2.configurationFile={configuration} -Dsemistream.log.level={log_level.lower()}"
    return f"{given} {ours}".strip()
