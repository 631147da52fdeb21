"""A directory of Parquet files, joined as a stream, into a directory of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import semistream as ss
from semistream.errors import ConfigError, StoreError

CHECKPOINT_NAME = "_checkpoint"
_SINK_LOG = "_spark_metadata"


@dataclass(frozen=True, kw_only=True)
class ParquetJoin:
    """What to join. Running it again with the same `output` and `checkpoint` joins only files that are new."""

    source: Path
    store: Path
    output: Path
    checkpoint: Path
    on: str | list[str] | Mapping[str, str]
    how: str
    memory: str
    columns: list[str] | None
    suffix: str | None
    tasks: int | None
    files_per_batch: int

    def check(self) -> None:
        """ConfigError or StoreError for paths that are missing or in the way. Needs no Spark."""
        ss.open(self.store)
        if not self.source.is_dir():
            found = "is a file" if self.source.exists() else "does not exist"
            raise ConfigError(f"{self.source} {found}.", hint="name a directory of Parquet files.")
        if next(_data_files(self.source), None) is None:
            raise ConfigError(
                f"{self.source} holds no Parquet files.", hint="name a directory of Parquet files."
            )
        if self.output.resolve() in (self.source.resolve(), self.store.resolve()):
            raise StoreError(
                f"the output {self.output} is also an input.", hint="choose another directory for the output."
            )
        if self.output.exists() and not self.output.is_dir():
            raise StoreError(
                f"{self.output} exists and is a file.", hint="choose another path for the output."
            )
        self._check_resumable()

    def _check_resumable(self) -> None:
        if (self.checkpoint / "metadata").exists() or not self.output.exists():
            return
        if (self.output / _SINK_LOG).exists():
            # Spark's file sink would silently drop every batch whose number it has seen before.
            raise StoreError(
                f"{self.output} holds the output of an earlier run, but {self.checkpoint} is not its checkpoint.",
                hint="name that run's --checkpoint to go on, or another output directory to start anew.",
            )
        if any(entry.resolve() != self.checkpoint.resolve() for entry in self.output.iterdir()):
            raise StoreError(
                f"{self.output} is not empty, and not the output of an earlier run.",
                hint="choose another directory for the output.",
            )

    def rows_ahead(self) -> int:
        """Rows in the files that no earlier run has taken up, by the files' footers; unreadable ones count 0.

        An estimate for a progress bar: the batch that a killed run was at is not in it.
        """
        taken = set(_taken_files(self.checkpoint))
        return sum(_rows(path) for path in _data_files(self.source) if path.resolve() not in taken)

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Starts the query; it ends when all files that are there now are joined."""
        schema = spark.read.parquet(str(self.source.absolute())).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", self.files_per_batch)
        joined = ss.join(
            reader.parquet(str(self.source.absolute())),
            self.store,
            on=self.on,
            how=self.how,
            memory=self.memory,
            columns=self.columns,
            suffix=self.suffix,
            tasks=self.tasks,
        )
        return (
            joined.writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint.absolute()))
            .trigger(availableNow=True)
            .start(str(self.output.absolute()))
        )


def _data_files(directory: Path) -> Iterator[Path]:
    """The files that Spark's file source reads: names with a leading underscore or dot are not data."""
    for path in directory.rglob("*"):
        if path.is_file() and not any(p.startswith(("_", ".")) for p in path.relative_to(directory).parts):
            yield path


def _taken_files(checkpoint: Path) -> Iterator[Path]:
    """The files in the source's log: one JSON object a line, behind a line with the log's version."""
    log = checkpoint / "sources" / "0"
    if not log.is_dir():
        return
    for entry in log.iterdir():
        if entry.name.startswith("."):
            continue
        for line in entry.read_text().splitlines():
            if line.startswith("{"):
                yield Path(unquote(urlparse(json.loads(line)["path"]).path)).resolve()


def _rows(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowInvalid):
        return 0
