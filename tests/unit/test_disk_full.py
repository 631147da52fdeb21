"""A full disk: one readable error, the version before stays, and nothing is left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.stores import lookup, shard_files

from semistream.errors import StoreError
from semistream.master_table import builder
from semistream.master_table import files as files_module
from semistream.master_table.builder import build_store
from semistream.master_table.manifest import Manifest
from semistream.master_table.page_store import MasterTable

SMALL = pa.table({"k": pa.array(range(100)), "v": pa.array(["old"] * 100)})

PROGRAM = """
import resource, sys
import pyarrow as pa
from semistream.errors import StoreError
from semistream.master_table.builder import build_store

limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
rows = 20_000
table = pa.table({"k": pa.array(range(rows)), "v": pa.array(["x" * 200] * rows)})
try:
    build_store(table, sys.argv[1], key="k", shards=2, overwrite=True)
except StoreError as error:
    print(error)
"""


def build_too_much(store: Path, *, limit: int, wrapper: list[str]) -> str:
    ran = subprocess.run(
        [*wrapper, sys.executable, "-c", PROGRAM, str(store), str(limit)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def check(store: Path, message: str, files: list[Path]) -> None:
    assert "could not be written" in message
    assert str(store) in message
    assert "Hint:" in message
    assert shard_files(store) == files
    table = MasterTable.open(store)
    assert table.version == 1
    found, _ = lookup(table, pa.table({"k": pa.array(range(200))}))
    assert sum(found.values()) == 100


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """A real refusal of the operating system, on any machine: the limit of a file's size."""
    store = tmp_path / "s"
    build_store(SMALL, store, key="k")
    files = shard_files(store)
    check(store, build_too_much(store, limit=1 << 20, wrapper=[]), files)


def test_a_full_file_system(tmp_path: Path) -> None:
    """A file system of 2 MiB, mounted in a name space of its own."""
    store = tmp_path / "s"
    script = (
        'mount -t tmpfs -o size=2m tmpfs "$1" || exit 77; "$2" -c "$3" "$1/s"; "$2" -c "$4" "$1/s" 0; '
        '"$2" -c "$5" "$1/s"'
    )
    first = (
        "import sys, pyarrow as pa\nfrom semistream.master_table.builder import build_store\n"
        "build_store(pa.table({'k': list(range(100))}), sys.argv[1], key='k')"
    )
    after = (
        "import sys\nfrom pathlib import Path\nimport semistream as ss\n"
        "t = ss.open(sys.argv[1])\nprint('after', t.version, t.rows, sum(t.verify()) == t.pages, "
        "len(list(Path(sys.argv[1]).glob('shards/*/*'))))"
    )
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh",
         str(tmp_path), sys.executable, first, PROGRAM, after],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if ran.returncode in (1, 77) and "after" not in ran.stdout:
        pytest.skip(f"no name spaces here: {ran.stderr.strip()[-200:]}")
    assert "the disk is full" in ran.stdout
    assert str(store) in ran.stdout
    assert ran.stdout.splitlines()[-1] == "after 1 100 True 1"


@pytest.mark.parametrize("moment", ["first write", "fsync", "manifest"])
def test_no_room_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    store = tmp_path / "s"
    build_store(SMALL, store, key="k")
    files = shard_files(store)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if moment == "first write":
        monkeypatch.setattr(builder.ShardWriter, "_flush", full)
    elif moment == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr("semistream.master_table.manifest.write_atomically", full)
    with pytest.raises(StoreError, match="the disk is full"):
        build_store(SMALL, store, key="k", shards=3, overwrite=True)
    monkeypatch.undo()
    assert shard_files(store) == files
    assert MasterTable.open(store).version == 1


def test_a_build_killed_while_it_wrote_the_manifest_is_no_obstacle(tmp_path: Path) -> None:
    store = tmp_path / "s"
    (store / "shards" / "ab").mkdir(parents=True)
    for left in (store / ".manifest.json.123.draft", store / "shards" / "ab" / "00000-cd.pages"):
        left.write_bytes(b"half")
    assert build_store(SMALL, store, key="k").rows == SMALL.num_rows
    (store / ".manifest.json.123.draft").write_bytes(b"half")
    build_store(SMALL, store, key="k", overwrite=True)
    assert {entry.name for entry in store.iterdir()} == {"manifest.json", "shards", ".prepare.lock"}
    assert {file.name for file in shard_files(store)} != {"00000-cd.pages"}


def test_a_damaged_manifest_can_be_replaced_and_is_left_alone_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "s"
    build_store(SMALL, store, key="k")
    whole = (store / "manifest.json").read_bytes()
    (store / "manifest.json").write_bytes(whole[:-40])
    files = shard_files(store)
    with pytest.raises(StoreError, match="already holds"):
        build_store(SMALL, store, key="k")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(builder.ShardWriter, "_flush", full)
        with pytest.raises(StoreError, match="the disk is full"):
            build_store(SMALL, store, key="k", overwrite=True)
    assert shard_files(store) == files  # whoever has a copy of the manifest can still restore it
    assert build_store(SMALL, store, key="k", overwrite=True).rows == SMALL.num_rows
    assert not set(files) & set(shard_files(store))


def test_a_first_build_that_fails_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="the disk is full"):
        build_store(SMALL, tmp_path / "s", key="k", shards=3)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("moment", ["leftovers", "directory sync"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_behind_the_commit_does_not_undo_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, error: type[BaseException]
) -> None:
    """Once the manifest names the new files they are the table, whoever stumbles afterwards."""
    store = tmp_path / "s"
    build_store(SMALL, store, key="k")
    real_leftovers, real_sync = builder.remove_leftovers, files_module.sync_directory

    def leftovers(where: Path, manifest: Manifest | None) -> None:
        if manifest is not None and len(manifest.versions) == 2:
            raise error("stumbled")
        real_leftovers(where, manifest)

    def sync(path: Path) -> None:
        if path == store:
            raise error("stumbled")
        real_sync(path)

    if moment == "leftovers":
        monkeypatch.setattr(builder, "remove_leftovers", leftovers)
    else:
        monkeypatch.setattr(files_module, "sync_directory", sync)
    with contextlib.suppress(OSError, StoreError, KeyboardInterrupt):
        build_store(SMALL, store, key="k", shards=3, overwrite=True)
    monkeypatch.undo()
    table = MasterTable.open(store)
    assert table.version == 2
    assert sum(table.verify()) == table.pages
    assert build_store(SMALL, store, key="k", overwrite=True).version == 3
