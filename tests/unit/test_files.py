"""Files with few descriptors, and files that are removed, replaced or cut while they are mapped."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from semistream.master_table import files
from semistream.master_table.files import MappedFile, open_file

BLOCK = 4096
PROGRAM = """
import os, resource, sys
import pyarrow as pa
from semistream.errors import StoreError
from semistream.master_table import files
from semistream.master_table.builder import build_store
from tests.stores import lookup

table = build_store(
    pa.table({"k": list(range(2000)), "v": list(range(2000))}), sys.argv[1], key="k", shards=100, page_size=512
)
stream = pa.table({"k": list(range(1000, 3000))})
if sys.argv[2] == "buffered":
    files.is_mapping_allowed = lambda: False
lookup(build_store(pa.table({"k": [1]}), sys.argv[1] + "-small", key="k"), pa.table({"k": [1]}))  # compiles
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    found, _ = lookup(table, stream)
    print(len(found), len(os.listdir("/proc/self/fd")) < 64)
except StoreError as error:
    print(error)
"""


def with_few_descriptors(store: Path, kind: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(store), kind],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_task_may_have_more_shards_than_descriptors(tmp_path: Path) -> None:
    assert with_few_descriptors(tmp_path / "s", "mapped") == "1000 True"


def test_where_files_cannot_be_mapped_too_many_shards_are_explained(tmp_path: Path) -> None:
    message = with_few_descriptors(tmp_path / "s", "buffered")
    assert "the table has 100 shards" in message
    assert "Hint: raise the limit (ulimit -n)" in message
    assert len(message.splitlines()) == 2


@pytest.fixture(autouse=True)
def _nothing_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_mapped", type(files._mapped)())


def first_byte(file: files.BlockFile, block: int) -> int:
    return ctypes.string_at(int(file.fetch(np.array([block], np.int64), BLOCK)[0]), 1)[0]


def blocks_of(value: int, count: int) -> bytes:
    return bytes([value]) * (count * BLOCK)


def test_a_removed_file_stays_readable_while_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(blocks_of(1, 4))
    file = open_file(path)
    assert isinstance(file, MappedFile)
    path.unlink()
    assert file.is_removed
    assert file.size_bytes == 4 * BLOCK
    assert first_byte(file, 3) == 1
    with pytest.raises(FileNotFoundError):
        open_file(path)


def test_a_replaced_file_is_opened_anew(tmp_path: Path) -> None:
    """Of the same name and size, so only the file itself tells them apart."""
    path = tmp_path / "f"
    path.write_bytes(blocks_of(1, 4))
    before = open_file(path)
    (tmp_path / "g").write_bytes(blocks_of(2, 4))
    (tmp_path / "g").replace(path)
    assert isinstance(before, MappedFile)
    assert before.is_removed
    assert first_byte(before, 0) == 1
    assert first_byte(open_file(path), 0) == 2
    assert len(files._mapped) == 1  # the room of the one before is free


def test_a_cut_file_is_an_error_not_a_signal(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(blocks_of(1, 4))
    file = open_file(path)
    os.truncate(path, 2 * BLOCK)
    assert first_byte(file, 1) == 1
    with pytest.raises(EOFError):
        first_byte(file, 2)
    with pytest.raises(EOFError):
        file.read(BLOCK, np.zeros(BLOCK + 1, np.uint8))


def test_an_empty_file_is_read_without_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    file = open_file(tmp_path / "f")
    assert not isinstance(file, MappedFile)
    assert file.size_bytes == 0
    file.close()


def test_a_mapping_takes_no_descriptor_and_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(blocks_of(1, 4))
    before = len(os.listdir("/proc/self/fd"))
    file = MappedFile(path)
    assert len(os.listdir("/proc/self/fd")) == before
    assert str(path) in Path("/proc/self/maps").read_text()
    del file
    assert str(path) not in Path("/proc/self/maps").read_text()
