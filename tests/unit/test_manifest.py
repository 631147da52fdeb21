"""The manifest: what is written comes back; what is damaged, newer or leads astray is refused."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.strategies import VALUE_TYPES

from semistream.errors import CorruptionError, StoreError
from semistream.master_table.files import exclusive_lock, write_atomically
from semistream.master_table.manifest import FILE_NAME, Column, Manifest, Version, parse_type
from semistream.master_table.shard_file import ShardInfo


def version(number: int = 1, **changes: Any) -> Version:
    shard = ShardInfo(
        file="shards/ab/00000-cd.pages", bytes=900, pages=1, rows=3, fence_bytes=9, seed=2**63 + 5
    )
    columns = (Column(name="k", type="int64"), Column(name="price €", type="decimal128(15, 2)"))
    made = Version(
        number=number,
        committed_us=1_000 + number,
        key=("k",),
        columns=columns,
        page_bytes=512,
        shards=(shard,),
    )
    return replace(made, **changes)


def manifest(*versions: Version) -> Manifest:
    return Manifest(store_id="abc", versions=versions or (version(),))


def rewrite(store: Path, change: Any) -> None:
    """Changes the body and seals it again, as a hostile or foreign writer could."""
    envelope = json.loads((store / FILE_NAME).read_text())
    change(envelope["body"])
    envelope["checksum"] = zlib.crc32(json.dumps(envelope["body"], indent=1).encode())
    (store / FILE_NAME).write_text(json.dumps(envelope))


def test_round_trip(tmp_path: Path) -> None:
    written = manifest(version(1), version(2))
    written.write(tmp_path)
    assert Manifest.read(tmp_path) == written
    assert Manifest.read(tmp_path).newest.number == 2
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("kind", VALUE_TYPES, ids=str)
def test_every_stored_type_has_a_name_that_is_read_back(kind: pa.DataType) -> None:
    assert parse_type(str(kind)) == kind


@pytest.mark.parametrize("text", ["decimal128(5)", "decimal128(x, y)", "list<item: int8>", "", "float16"])
def test_unknown_types_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (int() and ours; both become "damaged")
        parse_type(text)


def test_only_the_newest_versions_are_kept_and_commit_times_rise() -> None:
    long_ahead = version(1, committed_us=2**60)
    kept = manifest(long_ahead)
    assert kept.next_commit_us() == 2**60 + 1
    for number in (2, 3):
        kept = kept.with_version(version(number), keep=2)
    assert [each.number for each in kept.versions] == [2, 3]
    assert kept.version(1) is None


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        Manifest.read(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="exists but holds no store"):
        Manifest.read(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="no master table at"):
        Manifest.read(tmp_path / "file")


def test_a_newer_format_asks_for_an_upgrade_whatever_else_it_holds(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({"format": 2, "shape": "unknown today"}))
    with pytest.raises(StoreError, match="format 2") as caught:
        Manifest.read(tmp_path)
    assert "upgrade semistream" in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"format": "x"}', b'{"format": 1}', b"\xff\xfe", b'{"body": {}}']
)
def test_what_is_no_manifest_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(CorruptionError, match=r"manifest\.json"):
        Manifest.read(tmp_path)


def test_every_changed_digit_or_letter_is_noticed(tmp_path: Path) -> None:
    written = manifest(version(1), version(2))
    written.write(tmp_path)
    content = (tmp_path / FILE_NAME).read_bytes()
    noticed = 0
    for at in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[at] = damaged[at] ^ 1
        (tmp_path / FILE_NAME).write_bytes(bytes(damaged))
        try:
            found = Manifest.read(tmp_path)
        except StoreError:
            noticed += 1
        else:
            assert found == written  # white space only
    assert noticed > len(content) / 7 / 2


@pytest.mark.parametrize("file", ["/etc/passwd", "../other/x", "shards/../../x", "shards\\..\\x", ".."])
def test_a_file_outside_the_store_is_refused(tmp_path: Path, file: str) -> None:
    manifest().write(tmp_path)
    rewrite(tmp_path, lambda body: body["versions"][0]["shards"][0].update(file=file))
    with pytest.raises(CorruptionError, match="leads out of the store"):
        Manifest.read(tmp_path)


def _set(path: str, value: object) -> Any:
    def change(body: dict[str, Any]) -> None:
        at: Any = body
        *parents, last = path.split(".")
        for name in parents:
            at = at[int(name)] if name.isdigit() else at[name]
        at[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("hash", "murmur3"),
        _set("versions", []),
        _set("versions.0.shards", []),
        _set("versions.0.page_bytes", 0),
        _set("versions.0.key", ["other"]),
        _set("versions.0.columns", [{"name": "k", "type": "float16"}]),
        _set("versions.0.columns", "k"),
        _set("versions.0.number", None),
        _set("versions.0.shards", [{"file": "x"}]),
        _set("versions", 3),
    ],
)
def test_a_body_that_makes_no_sense_is_damaged(tmp_path: Path, change: Any) -> None:
    manifest().write(tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(CorruptionError, match="is damaged"):
        Manifest.read(tmp_path)


def test_an_interrupted_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(OSError, match="no"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_lock_is_exclusive_and_comes_back(tmp_path: Path) -> None:
    with exclusive_lock(tmp_path / "lock") as first:
        assert first
        with exclusive_lock(tmp_path / "lock") as second:
            assert not second
    with exclusive_lock(tmp_path / "lock") as third:
        assert third
