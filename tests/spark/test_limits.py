"""Limits of the machine, set for real: a full disk while Spark prepares, a limited address space in its workers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.test_faults import Site, expected
from tests.sparks import committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
import json, resource, sys
from pathlib import Path
import semistream as ss
from semistream.spark.session import local_session

store, limit = Path(sys.argv[1]), int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # for the JVM and its workers, too
spark = local_session("limits", driver_memory="1g", log_level="OFF", conf={"spark.local.dir": sys.argv[3]})
table = ss.prepare(spark.range(100).selectExpr("id as k", "'old' as v"), store, key="k", shards=2)
before = sorted(path.name for path in store.rglob("*.pages"))
rows = spark.range(20_000).selectExpr("id as k", "repeat('x', 200) as v")
try:
    ss.prepare(rows, store, key="k", shards=2, overwrite=True)
except ss.StoreError as error:
    message = str(error)
after = sorted(path.name for path in store.rglob("*.pages"))
stream = spark.range(150).selectExpr("id as k")
found = ss.join(stream, store, on="k", memory="4 MiB").where("v = 'old'").count()
print(json.dumps({"message": message, "kept": before == after, "found": found, "version": ss.open(store).version}))
"""
MOUNT = 'mount -t tmpfs -o size=2m tmpfs "$1" && shift && exec "$@"'
NAME_SPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"]


def can_mount(place: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAME_SPACE, place, "true"], capture_output=True, check=False).returncode == 0


def test_a_full_disk_while_spark_prepares(tmp_path: Path) -> None:
    """A file system of 2 MiB where one may be mounted, else a limit of 1 MiB on every file."""
    disk, scratch = tmp_path / "disk", tmp_path / "scratch"
    disk.mkdir()
    scratch.mkdir()
    is_mounted = can_mount(disk)
    wrapper = [*NAME_SPACE, str(disk)] if is_mounted else []
    limit = "0" if is_mounted else str(1 << 20)
    ran = subprocess.run(
        [*wrapper, sys.executable, "-c", PROGRAM, str(disk / "s"), limit, str(scratch)],
        capture_output=True, text=True, timeout=150, check=False,
        env=os.environ | {"SEMISTREAM_FRONT_STAGE_DIR": str(scratch)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    message = found.pop("message")
    assert "could not be written" in message
    assert str(disk / "s") in message
    assert "the version before is untouched" in message
    assert ("the disk is full" in message) == is_mounted
    assert found == {"kept": True, "found": 100, "version": 1}


def test_a_limited_address_space_in_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    """spark.executor.pyspark.memory: files are read through buffers then, as mappings would count."""
    site = Site.at(tmp_path)
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.pyspark.memory": "4g",
    }
    site.run(master="local[2]", conf=conf)
    limits = (tmp_path / "marks" / "limits").read_text().split()
    assert set(limits) == {str(4 << 30)}
    assert committed(spark, tmp_path / "out") == expected()
