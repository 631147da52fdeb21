"""TPC-H's customer and orders tables, made by tpchgen-cli: as files, or as sources of rows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Literal

import pyarrow as pa
import pyarrow.csv as csv

from semistream.errors import ConfigError, SemistreamError
from semistream.workloads.contracts import Cutter, KeyReader, checked_start
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

CUSTOMERS_PER_SCALE, ORDERS_PER_SCALE = 150_000, 1_500_000
CUSTOMER_KEY, ORDER_KEY = "c_custkey", "o_custkey"
_MONEY = pa.decimal128(15, 2)
CUSTOMER_SCHEMA = pa.schema(
    [
        pa.field(CUSTOMER_KEY, pa.int64(), nullable=False),
        ("c_name", pa.string()),
        ("c_address", pa.string()),
        ("c_nationkey", pa.int64()),
        ("c_phone", pa.string()),
        ("c_acctbal", _MONEY),
        ("c_mktsegment", pa.string()),
        ("c_comment", pa.string()),
    ]
)
ORDERS_SCHEMA = pa.schema(
    [
        pa.field("o_orderkey", pa.int64(), nullable=False),
        pa.field(ORDER_KEY, pa.int64(), nullable=False),
        ("o_orderstatus", pa.string()),
        ("o_totalprice", _MONEY),
        ("o_orderdate", pa.date32()),
        ("o_orderpriority", pa.string()),
        ("o_clerk", pa.string()),
        ("o_shippriority", pa.int32()),
        ("o_comment", pa.string()),
    ]
)
_SCHEMAS = {"customer": CUSTOMER_SCHEMA, "orders": ORDERS_SCHEMA}
_READ_BYTES = 4 << 20
_PATIENCE_S = 5.0

TableName = Literal["customer", "orders"]


def write_parquet(table: TableName, directory: Path, *, scale: float, parts: int) -> list[Path]:
    """Writes a table as `parts` Parquet files into `directory`, which must not exist; returns them."""
    options = [f"--scale-factor={scale}", f"--tables={table}", f"--parts={parts}"]
    ran = subprocess.run(
        [_program(), "parquet", *options, f"--output-dir={directory.parent}"],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if ran.returncode:
        raise _failed(ran.returncode, ran.stderr)
    (directory.parent / table).rename(directory)
    return sorted(directory.iterdir())


@dataclass(frozen=True, kw_only=True)
class TpchSource:
    """The rows of a TPC-H table, read from tpchgen-cli while it makes them.

    Nothing is kept on disk, and a few megabytes in memory. tpchgen-cli always starts at the first row, so
    starting later costs the time to make the rows before.

    Parameters
    ----------
    exponent: None leaves the customers of orders as TPC-H has them: uniform over two of three customers.
        A number replaces them by customers drawn from all, with that Zipf exponent.
    """

    table: TableName
    scale: float = 1.0
    exponent: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.scale <= 100_000:
            raise ConfigError(
                f"the scale factor must lie above 0 and at most 100,000, got {self.scale}",
                hint="1 makes 150,000 customers and 1.5 million orders",
            )
        if self.customers < 1:
            raise ConfigError(f"scale factor {self.scale:g} makes no customer", hint="use at least 0.001")
        if self.exponent is not None:
            self._zipf_config()

    @property
    def schema(self) -> pa.Schema:
        return _SCHEMAS[self.table]

    @property
    def customers(self) -> int:
        return int(self.scale * CUSTOMERS_PER_SCALE)

    @property
    def rows(self) -> int | None:
        return self.customers if self.table == "customer" else self.customers * 10

    def batches(self, rows: int, *, first: int = 0) -> Iterator[pa.RecordBatch]:
        at = checked_start(rows, first)
        cutter = Cutter(self._generate(), self.schema)
        cutter.skip(first)
        customers = None
        if self.table == "orders" and self.exponent is not None:
            customers = KeyReader(ZipfKeys(self._zipf_config()))
        for batch in cutter.all(rows):
            if customers is None:
                yield batch
            else:
                # TPC-H numbers customers from 1.
                drawn = pa.array(customers.read(at, batch.num_rows) + 1)
                yield batch.set_column(1, self.schema.field(1), drawn)
            at += batch.num_rows

    def _zipf_config(self) -> ZipfConfig:
        exponent = 0.0 if self.exponent is None else self.exponent
        return ZipfConfig(keys=self.customers, exponent=exponent, seed=self.seed)

    def _generate(self) -> Iterator[pa.RecordBatch]:
        command = [_program(), "csv", f"--scale-factor={self.scale}", f"--tables={self.table}", "--stdout"]
        # Complaints go to a file: a second pipe could fill up while nobody reads it.
        with (
            TemporaryFile() as complaints,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints) as process,
        ):
            assert process.stdout is not None
            try:
                yield from self._parse(process.stdout, complaints, process)
            finally:
                # A reader that stops early leaves the program writing to a pipe that nobody empties.
                process.kill()

    def _parse(
        self, out: IO[bytes], complaints: IO[bytes], process: subprocess.Popen[bytes]
    ) -> Iterator[pa.RecordBatch]:
        try:
            reader = csv.open_csv(
                out,
                read_options=csv.ReadOptions(block_size=_READ_BYTES),
                convert_options=csv.ConvertOptions(
                    column_types=self.schema, include_columns=self.schema.names, strings_can_be_null=False
                ),
            )
            for batch in reader:
                yield batch.cast(self.schema)
        except pa.ArrowException as error:
            # What the program itself says is worth more, and closing the pipe lets it come to its end.
            out.close()
            try:
                status = process.wait(timeout=_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            raise _failed(status, _text(complaints) or str(error)) from error
        if process.wait():
            raise _failed(process.returncode, _text(complaints))


def _program() -> str:
    beside_python = Path(sys.executable).parent / "tpchgen-cli"
    found = str(beside_python) if beside_python.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise SemistreamError(
            "TPC-H's tables are made by tpchgen-cli, and it is not installed.",
            hint='pip install "semistream[demo]"',
        )
    return found


def _failed(status: int, complaint: str) -> SemistreamError:
    return SemistreamError(
        f"tpchgen-cli failed: {complaint.strip() or status}",
        hint="is there room on the disk, and is the scale factor a positive number?",
    )


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
