"""The demo's two inputs: TPC-H's customer table, and orders whose customers follow Zipf's law."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semistream.errors import StoreError
from semistream.workloads import tpch
from semistream.workloads.zipf import ZipfKeys

FILES_PER_BATCH = 2
ORDER_SCHEMA = pa.schema(
    [
        pa.field("o_orderkey", pa.int64(), nullable=False),
        pa.field("custkey", pa.int64(), nullable=False),
        ("price", pa.decimal128(15, 2)),
        ("date", pa.date32()),
    ]
)
_MARKER = ".semistream-demo"
# The file source takes files in the order of their times, which writing in a hurry need not keep apart.
_FIRST_FILE_TIME_S = 1_600_000_000


def clean_directory(directory: Path) -> None:
    """Leaves `directory` empty but for our mark; StoreError if it holds anything that is not a demo's."""
    if directory.exists() and not (directory / _MARKER).exists() and any(directory.iterdir()):
        raise StoreError(
            f"{directory} is not empty, and not the directory of an earlier demo.",
            hint="choose another one with --directory.",
        )
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / _MARKER).touch()


def write_customers(directory: Path, *, scale: float) -> int:
    """Writes TPC-H's customer table as Parquet files into `directory`; returns the number of rows."""
    files = tpch.write_parquet("customer", directory, scale=scale, parts=FILES_PER_BATCH)
    return sum(pq.read_metadata(path).num_rows for path in files)


def write_orders(directory: Path, keys: ZipfKeys, *, batches: int, batch_rows: int) -> Iterator[int]:
    """Writes the order stream, FILES_PER_BATCH files a micro-batch; yields the rows of every batch."""
    directory.mkdir(parents=True)
    for batch in range(batches):
        orders = order_batch(keys, batch=batch, rows=batch_rows)
        for part in range(FILES_PER_BATCH):
            start, stop = (batch_rows * at // FILES_PER_BATCH for at in (part, part + 1))
            number = batch * FILES_PER_BATCH + part
            path = directory / f"orders-{number:06d}.parquet"
            pq.write_table(pa.Table.from_batches([orders.slice(start, stop - start)]), path)
            _set_time(path, number)
        yield batch_rows


def order_batch(keys: ZipfKeys, *, batch: int, rows: int) -> pa.RecordBatch:
    """Micro-batch number `batch`; customers are numbered from 1."""
    random = np.random.default_rng([keys.config.seed, batch])
    cents = pa.array(random.integers(90_000, 50_000_000, rows)).cast(pa.decimal128(19, 0))
    columns = [
        pa.array(np.arange(rows, dtype=np.int64) + batch * rows + 1),
        pa.array(keys.keys(batch=batch, rows=rows) + 1),
        pa.Array.from_buffers(pa.decimal128(15, 2), rows, cents.buffers()),
        pa.array(random.integers(8_035, 10_440, rows).astype(np.int32)).cast(pa.date32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ORDER_SCHEMA)


def _set_time(path: Path, number: int) -> None:
    time_ns = _FIRST_FILE_TIME_S * 10**9 + number * 10**6
    os.utime(path, ns=(time_ns, time_ns))
