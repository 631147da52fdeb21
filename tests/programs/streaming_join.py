"""A driver to be killed: joins a directory of Parquet files, one per micro-batch, into a file sink.

    python streaming_join.py '{"input": ..., "store": ..., "out": ..., "checkpoint": ..., "marks": ..., ...}'

With `table`, it first prepares the store and writes every kind of join; see `every_kind`.

Prints `batch N` when micro-batch N is committed, and `done` at the end. `fault` chooses what happens, once,
in micro-batch `fault_batch`, while the join's output is being consumed:

    "hang"          the task waits, and leaves the file `marks`/reached for whoever is to kill the driver
    "kill workers"  every Python worker of this session is killed with SIGKILL
    "slow"          the first attempt of one task waits until Spark has started a second one
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def fault(settings: dict[str, Any]) -> Any:
    """A function for mapInArrow that passes everything on, and strikes once."""
    kind, fault_batch, marks = settings["fault"], settings.get("fault_batch"), settings["marks"]

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import resource
        import signal
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        attempts, mine = os.path.join(marks, "attempts"), f"{batch_id} {context.partitionId()} "
        with open(attempts, "a") as log:
            log.write(f"{mine}{context.attemptNumber()}\n")
        with open(os.path.join(marks, "limits"), "a") as log:
            log.write(f"{resource.getrlimit(resource.RLIMIT_AS)[0]}\n")

        def tried() -> int:
            with open(attempts) as log:
                return sum(line.startswith(mine) for line in log)

        def first_time() -> bool:
            try:
                os.close(os.open(os.path.join(marks, "reached"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return False
            return True

        def siblings() -> list[int]:
            found = []
            for name in os.listdir("/proc"):
                try:
                    with open(f"/proc/{name}/stat") as file:
                        parent = int(file.read().rpartition(")")[2].split()[1])
                except (OSError, IndexError):
                    continue
                if name.isdigit() and parent == os.getppid():
                    found.append(int(name))
            return found

        strikes = kind is not None and int(batch_id) == fault_batch
        for number, batch in enumerate(batches):
            yield batch
            if strikes and number == 0 and first_time():
                if kind == "hang":
                    time.sleep(120)
                elif kind == "slow":
                    until = time.monotonic() + 60
                    while tried() < 2 and time.monotonic() < until:
                        time.sleep(0.05)
                elif kind == "kill workers":
                    # This process is a child of the daemon that forks the workers, and so are they.
                    for pid in [*(pid for pid in siblings() if pid != os.getpid()), os.getpid()]:
                        os.kill(pid, signal.SIGKILL)

    return run


def every_kind(spark: Any, settings: dict[str, Any]) -> None:
    """Prepares the store from the Parquet files `table`, and writes every kind of join, of the input as a batch
    and as a stream, into `kinds`/batch-left and so on."""
    import semistream as ss

    kinds = Path(settings["kinds"])
    ss.prepare(spark.read.parquet(settings["table"]), settings["store"], key="k", shards=3, page_size="1 KiB")
    batch = spark.read.parquet(settings["input"])
    stream = spark.readStream.schema(batch.schema).parquet(settings["input"])
    queries = []
    for how in ("inner", "left", "semi", "anti"):
        joined = ss.join(batch, settings["store"], on="k", how=how, memory="8 MiB", tasks=2)
        joined.write.parquet(str(kinds / f"batch-{how}"))
        joined = ss.join(stream, settings["store"], on="k", how=how, memory="8 MiB", tasks=2)
        writer = joined.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(kinds / f"checkpoint-{how}"))
        queries.append(writer.start(str(kinds / f"stream-{how}")))
    for query in queries:
        query.awaitTermination()


# A JVM that lives for seconds should not spend them on optimising itself.
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(settings: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    import semistream as ss
    from semistream.spark.java import ensure_java
    from semistream.spark.session import local_session

    if "master" in settings:
        ensure_java()
        builder = SparkSession.builder.master(settings["master"]).config(map=settings["conf"])
        builder = builder.config("spark.driver.extraJavaOptions", JVM_OPTIONS)
        builder = builder.config("spark.executor.extraJavaOptions", JVM_OPTIONS)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
    else:
        conf = {"spark.driver.extraJavaOptions": JVM_OPTIONS}
        spark = local_session("streaming-join", driver_memory="1g", log_level="OFF", conf=conf)
    if "table" in settings:
        every_kind(spark, settings)
    schema = spark.read.parquet(settings["input"]).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(settings["input"])
    joined = ss.join(stream, settings["store"], on="k", how="left", memory="8 MiB", tasks=2)
    watched = joined.mapInArrow(fault(settings), joined.schema)
    query = (
        watched.writeStream.format("parquet")
        .option("checkpointLocation", settings["checkpoint"])
        .trigger(availableNow=True)
        .start(settings["out"])
    )
    told = -1
    ended = threading.Event()
    while not ended.is_set():
        if query.awaitTermination(0.05):
            ended.set()
        commits = Path(settings["checkpoint"]) / "commits"
        numbers = [int(file.name) for file in commits.glob("[0-9]*")] if commits.exists() else []
        if numbers and max(numbers) > told:
            told = max(numbers)
            print(f"batch {told}", flush=True)
    cold = [batch.front_stage_cold_starts for batch in ss.metrics(query)]
    print("done " + json.dumps(cold), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
