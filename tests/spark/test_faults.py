"""Faults: killed workers and drivers, damaged files, two attempts at once. Nothing lost, doubled, or wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.oracle import bag, joined
from tests.sparks import committed, file_stream, run_to_files, write_files
from tests.stores import flip, shard_files

import semistream as ss
from semistream.master_table.builder import build_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[2]
BATCHES = 3
ROWS = 2000


def master_table() -> pa.Table:
    return pa.table(
        {"k": pa.array([n // 2 for n in range(4000)]), "v": pa.array([f"v{n}" for n in range(4000)])}
    )


def stream_parts() -> list[pa.Table]:
    rng = np.random.default_rng(8)
    keys = [(rng.zipf(1.3, ROWS) * 7) % 3000 for _ in range(BATCHES)]
    return [
        pa.table({"k": pa.array(part), "id": pa.array(np.arange(ROWS) + ROWS * number)})
        for number, part in enumerate(keys)
    ]


def expected(how: str = "left") -> Counter[tuple[object, ...]]:
    stream = pa.concat_tables(stream_parts())
    return joined(stream, master_table(), stream_key=["k"], master_key=["k"], how=how)


@dataclass
class Site:
    """Everything a driver needs, in one directory."""

    path: Path

    @classmethod
    def at(cls, path: Path, *, prepared: bool = True) -> Site:
        if prepared:
            build_store(master_table(), path / "store", key="k", shards=3, page_size=1024)
        else:
            write_files(path / "table", [master_table().slice(at, 1000) for at in range(0, 4000, 1000)])
        write_files(path / "in", stream_parts())
        (path / "marks").mkdir()
        (path / "front").mkdir()
        return cls(path)

    def start(self, **settings: Any) -> subprocess.Popen[str]:
        places = {"input": "in", "store": "store", "out": "out", "checkpoint": "checkpoint", "marks": "marks"}
        settings = (
            {name: str(self.path / place) for name, place in places.items()} | {"fault": None} | settings
        )
        program = REPOSITORY / "tests" / "programs" / "streaming_join.py"
        environment = os.environ | {
            "SEMISTREAM_FRONT_STAGE_DIR": str(self.path / "front"),
            "PYSPARK_PYTHON": sys.executable,
        }
        return subprocess.Popen(
            [sys.executable, str(program), json.dumps(settings)],
            stdout=subprocess.PIPE,
            stderr=(self.path / "errors").open("a"),
            text=True,
            env=environment,
            start_new_session=True,  # its JVM is in its group: both can be killed at once
        )

    def run(self, **settings: Any) -> list[int]:
        """To the end; returns the cold starts of each micro-batch."""
        with ended(self.start(**settings)) as driver:
            out, _ = driver.communicate(timeout=150)
            assert driver.returncode == 0, (self.path / "errors").read_text()[-3000:]
        return list(json.loads(out.splitlines()[-1].removeprefix("done ")))

    def attempts(self) -> list[tuple[int, int, int]]:
        """(micro-batch, task, attempt) of every task that ran behind the join."""
        lines = (self.path / "marks" / "attempts").read_text().splitlines()
        return [tuple(map(int, line.split())) for line in lines]  # type: ignore[misc]


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """No driver and no JVM outlives its test."""
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def wait_for_line(process: subprocess.Popen[str], wanted: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == wanted:
            return
    raise AssertionError(f"the driver ended before it said {wanted!r}")


def wait_for_file(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, "the driver ended"
        time.sleep(0.02)


def test_a_worker_killed_in_the_middle_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    site = Site.at(tmp_path)
    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "1g"}
    site.run(master="local[2,4]", conf=conf, fault="kill workers", fault_batch=1)
    assert committed(spark, tmp_path / "out") == expected()
    retried = [attempt for attempt in site.attempts() if attempt[2] > 0]
    assert retried
    assert {batch for batch, _, _ in retried} == {1}


def test_a_driver_killed_between_batches(spark: SparkSession, tmp_path: Path) -> None:
    site = Site.at(tmp_path)
    with ended(site.start(fault="hang", fault_batch=2)) as driver:
        wait_for_line(driver, "batch 1")
        kill_group(driver)
    cold = site.run()
    assert committed(spark, tmp_path / "out") == expected()
    # The front stages outlived the driver; at most one was just being changed when it was killed.
    assert 1 <= len(cold) <= 2
    assert sum(cold) <= 1


def test_a_driver_killed_in_the_middle_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    site = Site.at(tmp_path)
    with ended(site.start(fault="hang", fault_batch=1)) as driver:
        wait_for_file(tmp_path / "marks" / "reached", driver)
        kill_group(driver)
    site.run()
    assert committed(spark, tmp_path / "out") == expected()
    assert {batch for batch, _, _ in site.attempts()} == set(range(BATCHES))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """A standalone master and two one-core workers on two hosts, from the pip package alone."""
    import pyspark

    from semistream.spark.java import ensure_java

    ensure_java()
    home = Path(pyspark.__file__).parent
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    started = []

    def start(host: str, kind: str, *arguments: str) -> None:
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
            "SEMISTREAM_FRONT_STAGE_DIR": str(directory / "front"),
            "SPARK_WORKER_DIR": str(directory / "work"),
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", host]
        log = (directory / f"{kind}-{host}.log").open("w")
        started.append(
            subprocess.Popen(
                [*command, *arguments],
                stdout=log,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,
            )
        )

    try:
        start("127.0.0.1", "master.Master", "--port", str(port), "--webui-port", "0")
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        for host in ("127.0.0.1", "127.0.0.2"):
            start(host, "worker.Worker", "-c", "1", "-m", "700m", "--webui-port", "0", url)
        yield url
    finally:
        for process in reversed(started):
            kill_group(process)


@pytest.mark.timeout(300)
def test_a_cluster_of_two_hosts_prepares_joins_and_speculates(spark: SparkSession, tmp_path: Path) -> None:
    site = Site.at(tmp_path, prepared=False)
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "600m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": "2",
        "spark.locality.wait": "0s",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.quantile": "0.5",
    }
    with cluster(tmp_path) as url:
        kinds = {"table": str(tmp_path / "table"), "kinds": str(tmp_path / "kinds")}
        site.run(master=url, conf=conf, fault="slow", fault_batch=1, **kinds)
    assert committed(spark, tmp_path / "out") == expected()
    for how in ("inner", "left", "semi", "anti"):
        for mode in ("batch", "stream"):
            assert committed(spark, tmp_path / "kinds" / f"{mode}-{how}") == expected(how), (mode, how)
    tasks = Counter((batch, task) for batch, task, _ in site.attempts())
    assert {batch for batch, _ in tasks} == set(range(BATCHES))
    # The slow task was tried a second time while the first attempt still ran.
    assert max(tasks[1, task] for task in range(2)) >= 2


class FakeContext:
    """What a task asks its context for."""

    @staticmethod
    def partitionId() -> int:  # noqa: N802  (Spark's name)
        return 0

    @staticmethod
    def getLocalProperty(name: str) -> str | None:  # noqa: N802  (Spark's name)
        return {"sql.streaming.queryId": "query", "streaming.sql.batchId": "0"}.get(name)


def test_two_attempts_of_one_task_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from semistream.core.metrics import JoinMetrics
    from semistream.joins import resolve_shape
    from semistream.spark import join as runtime

    monkeypatch.setenv("SEMISTREAM_FRONT_STAGE_DIR", str(tmp_path))
    monkeypatch.setattr(runtime.TaskContext, "get", lambda: FakeContext)
    table = build_store(master_table(), tmp_path / "s", key="k", page_size=1024)
    stream = stream_parts()[0]
    shape = resolve_shape(stream.schema, table, on="k", how="left", columns=None, suffix=None)
    spec = runtime.TaskSpec.of(table, shape, algorithm="adaptive", tasks=1, task_bytes=8 << 20)
    wanted = joined(stream, master_table(), stream_key=["k"], master_key=["k"], how="left")

    def split(batches: list[pa.RecordBatch]) -> tuple[Counter[tuple[object, ...]], JoinMetrics]:
        *rows, carrier = batches
        metrics = JoinMetrics.from_bytes(carrier.column(carrier.num_columns - 1)[0].as_py())
        return bag([batch.select(range(batch.num_columns - 1)) for batch in rows]), metrics

    batches = stream.to_batches(max_chunksize=500)
    first = runtime.run_task(spec, iter(batches))
    begun = [next(first)]  # it has its front stage, and holds it
    found, metrics = split(list(runtime.run_task(spec, iter(batches))))
    assert found == wanted
    assert (metrics.front_stage_bytes, metrics.hits) == (0, 0)
    found, metrics = split([*begun, *first])
    assert found == wanted
    assert metrics.front_stage_bytes > 0
    found, metrics = split(list(runtime.run_task(spec, iter(batches))))
    assert found == wanted
    assert metrics.front_stage_cold_starts == 0
    assert metrics.misses == 0


@pytest.mark.parametrize("damage", ["flipped", "truncated", "deleted"])
def test_a_damaged_shard_fails_the_query_and_emits_no_wrong_row(
    spark: SparkSession, tmp_path: Path, damage: str
) -> None:
    table = build_store(master_table(), tmp_path / "s", key="k", shards=1, page_size=1024)
    stream = file_stream(spark, write_files(tmp_path / "in", stream_parts()[:2]))
    frame = ss.join(stream, table, on="k", how="left", memory="4 MiB")
    (file,) = shard_files(table.path)
    if damage == "flipped":
        for page in range(table.pages):
            flip(file, 1024 * page + 900)
    elif damage == "truncated":
        os.truncate(file, 5000)
    else:
        file.unlink()
    with pytest.raises(Exception, match="shard file") as caught:
        run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
    text = str(caught.value)
    assert str(file) in text
    assert "CorruptionError" in text
    assert "Hint:" in text
    if damage != "deleted":
        assert "page" in text
    assert not list((tmp_path / "out").glob("_spark_metadata/[0-9]*"))


def test_a_stream_goes_on_after_the_store_was_repaired(spark: SparkSession, tmp_path: Path) -> None:
    table = build_store(master_table(), tmp_path / "s", key="k", shards=2, page_size=1024)
    parts = stream_parts()[:2]
    stream = file_stream(spark, write_files(tmp_path / "in", parts))
    frame = ss.join(stream, table, on="k", how="left", memory="4 MiB")
    contents = {file: file.read_bytes() for file in shard_files(table.path)}
    for file in contents:
        os.truncate(file, 10)
    with pytest.raises(Exception, match="CorruptionError"):
        run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
    for file, content in contents.items():
        file.write_bytes(content)
    run_to_files(frame, tmp_path / "out", tmp_path / "checkpoint")
    wanted = joined(pa.concat_tables(parts), master_table(), stream_key=["k"], master_key=["k"], how="left")
    assert committed(spark, tmp_path / "out") == wanted


def test_a_second_prepare_at_the_same_time_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The first one is inside its Spark job when the second one comes."""
    reached, go = str(tmp_path / "reached"), str(tmp_path / "go")

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import time

        for batch in batches:
            open(reached, "w").close()
            while not os.path.exists(go):
                time.sleep(0.02)
            yield batch

    frame = spark.range(10).selectExpr("id as k")
    prepared: list[ss.MasterTable] = []
    thread = threading.Thread(
        target=lambda: prepared.append(
            ss.prepare(frame.mapInArrow(slow, frame.schema), tmp_path / "s", key="k", shards=1)
        )
    )
    thread.start()
    try:
        while not Path(reached).exists():
            assert thread.is_alive()
            time.sleep(0.02)
        with pytest.raises(ss.StoreError, match="is being prepared by another process"):
            ss.prepare(frame, tmp_path / "s", key="k", shards=1, overwrite=True)
    finally:
        Path(go).touch()
        thread.join()
    assert [table.rows for table in prepared] == [10]


def test_a_prepare_killed_in_the_middle(spark: SparkSession, tmp_path: Path) -> None:
    """The version before stays readable, and the next prepare removes what the killed one left."""
    store = tmp_path / "s"
    ss.prepare(spark.range(100).selectExpr("id as k", "'old' as v"), store, key="k", shards=2)
    before = set(shard_files(store))
    program = (
        "import sys, semistream as ss\n"
        "from semistream.spark.session import local_session\n"
        "spark = local_session('to-be-killed', driver_memory='1g', log_level='OFF')\n"
        "rows = spark.range(3_000_000).selectExpr('id as k', \"repeat('new', 40) as v\")\n"
        "ss.prepare(rows, sys.argv[1], key='k', shards=1, overwrite=True)\n"
    )
    command = [sys.executable, "-c", program, str(store)]
    with ended(subprocess.Popen(command, text=True, start_new_session=True)) as process:
        # 360 MB take seconds to write; a few have been written.
        while max(file.stat().st_size for file in shard_files(store)) < 3 << 20:
            assert process.poll() is None, "the driver ended"
            time.sleep(0.02)
        kill_group(process)
    assert set(shard_files(store)) > before  # it did leave something
    stream = spark.range(150).selectExpr("id as k")
    assert ss.join(stream, store, on="k", memory="4 MiB").where("v = 'old'").count() == 100
    newer = ss.prepare(
        spark.range(50).selectExpr("id as k", "'new' as v"), store, key="k", shards=1, overwrite=True
    )
    assert newer.version == 2
    named = {store / shard.file for shard in newer.info.shards}
    assert set(shard_files(store)) == before | named
    assert {entry.name for entry in store.iterdir()} == {"manifest.json", "shards", ".prepare.lock"}
