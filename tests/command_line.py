"""A small world for the command line: a table, a stream of orders, and a way to run the real command."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CUSTOMERS, ORDERS_PER_FILE = 5_000, 1_500
_KEYS, _SCATTER = 6_000, 7_919

Ran = subprocess.CompletedProcess[str]


def semistream(*arguments: str | Path, cwd: Path | None = None) -> Ran:
    """Run the installed command as a user would; the text of both its outputs is kept."""
    script = Path(sys.executable).with_name("semistream")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "semistream.cli.main"]
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": "120"},
    )


def assert_explained(ran: Ran, *parts: str) -> None:
    """The command failed with nothing but one line, which holds all `parts`, and a hint."""
    assert ran.returncode == 1, (ran.stdout, ran.stderr)
    error, hint = ran.stderr.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("Hint: ")
    for part in parts:
        assert part in ran.stderr


@dataclass(frozen=True, kw_only=True)
class World:
    """Customers with one row per key, orders of which some have no customer, and the prepared store."""

    root: Path
    customers: pa.Table
    prepared: Ran

    @property
    def table(self) -> Path:
        return self.root / "customers"

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def orders(self) -> Path:
        return self.root / "orders"


def write_orders(directory: Path, *, files: range) -> None:
    """Four files ask for every customer once, in no order, and for a thousand that there are not."""
    directory.mkdir(exist_ok=True)
    for number in files:
        orderkey = np.arange(ORDERS_PER_FILE) + number * ORDERS_PER_FILE
        orders = pa.table({"orderkey": orderkey, "custkey": orderkey * _SCATTER % _KEYS})
        pq.write_table(orders, directory / f"{number}.parquet")


def make_world(root: Path) -> World:
    customers = pa.table(
        {
            "custkey": np.arange(CUSTOMERS),
            "name": [f"Customer#{key:018d}" for key in range(CUSTOMERS)],
            "segment": [None if key % 7 == 0 else f"segment {key % 5}" for key in range(CUSTOMERS)],
        }
    )
    (root / "customers").mkdir()
    pq.write_table(customers, root / "customers" / "a.parquet")
    write_orders(root / "orders", files=range(4))
    prepared = semistream("prepare", root / "customers", root / "store", "--key", "custkey", "--shards", "2")
    return World(root=root, customers=customers, prepared=prepared)
