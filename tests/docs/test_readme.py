"""The README's examples run as they stand, one after the other; of its `make` lines, the targets exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# What the reader has: a session, a table, a stream's files.
TABLES = """\
import pyarrow as pa, pyarrow.parquet as pq, pathlib
for name in ("customers", "orders"):
    pathlib.Path(name).mkdir()
pq.write_table(pa.table({"custkey": [1, 2, 3], "name": ["a", "b", "c"]}), "customers/0.parquet")
orders = pa.table({"orderkey": [1, 2, 3], "custkey": [1, 1, 9], "price": [1.0, 2.0, 3.0]})
pq.write_table(orders, "orders/0.parquet")
"""
PRELUDE = f"""{TABLES}
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


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_the_docs_examples_run(tmp_path: Path, page: Path) -> None:
    """Those pages need neither Spark nor any file."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, timeout=150, check=False, cwd=tmp_path
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


def _lines(program: str) -> list[list[str]]:
    lines = [shlex.split(line, comments=True) for block in _blocks("sh") for line in block.splitlines()]
    return [arguments for name, *arguments in filter(None, lines) if name == program]


@pytest.mark.timeout(300)
def test_the_commands_run(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", TABLES], check=True, cwd=tmp_path)
    (tmp_path / "front").mkdir()
    environment = os.environ | {"SEMISTREAM_FRONT_STAGE_DIR": str(tmp_path / "front")}
    commands = _lines("semistream")
    assert [arguments[0] for arguments in commands] == ["prepare", "info", "verify", "join", "clean"]
    said = []
    for arguments in commands:
        ran = subprocess.run(
            [sys.executable, "-m", "semistream.cli.main", *arguments],
            capture_output=True, text=True, timeout=150, check=False, cwd=tmp_path, env=environment,
        )  # fmt: skip
        assert ran.returncode == 0, (arguments, ran.stderr)
        said.append(ran.stdout)
    assert "joined 3 rows into 3" in said[3]
    assert re.match(r"removed [1-9]\d* front stage", said[4]), "one for each task that had a row"


@pytest.mark.parametrize("target", [arguments[0] for arguments in _lines("make")])
def test_the_targets_of_make_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
