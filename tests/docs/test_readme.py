"""The README's examples run as they stand, one after the other, and its commands parse."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from semistream.cli.main import parser

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# What the reader has: a session, a table, a stream's files.
PRELUDE = """\
import pyarrow as pa, pyarrow.parquet as pq, pathlib
for name in ("customers", "orders"):
    pathlib.Path(name).mkdir()
pq.write_table(pa.table({"custkey": [1, 2, 3], "name": ["a", "b", "c"]}), "customers/0.parquet")
orders = pa.table({"orderkey": [1, 2, 3], "custkey": [1, 1, 9], "price": [1.0, 2.0, 3.0]})
pq.write_table(orders, "orders/0.parquet")
from semistream.spark.quiet import quiet_session
spark = quiet_session("readme")
"""
EPILOGUE = """\
found = spark.read.parquet("enriched").orderBy("orderkey").collect()
assert [(row.orderkey, row["name"]) for row in found] == [(1, "a"), (2, "a"), (3, None)], found
"""


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_python_examples_run(tmp_path: Path) -> None:
    code = "\n".join([PRELUDE, *_blocks("python"), EPILOGUE])
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=150, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[:2] == ["0", "3"], "batch 0 with three rows is printed"


@pytest.mark.parametrize("line", [line for block in _blocks("sh") for line in block.splitlines() if line])
def test_the_commands_exist(line: str) -> None:
    program, *arguments = shlex.split(line, comments=True)
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    else:
        assert program == "semistream"
        parser().parse_args(arguments)
