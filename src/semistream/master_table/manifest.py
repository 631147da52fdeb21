"""The manifest: which versions a store has, when each was committed, and which files it is made of.

It is written last and atomically: a version exists when the manifest names it, and not before. Files that
no version names are leftovers.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from semistream.errors import CorruptionError, StoreError
from semistream.master_table.files import write_atomically
from semistream.master_table.shard_file import RESTORE_HINT, ShardInfo

FILE_NAME = "manifest.json"
FORMAT_VERSION = 1
HASH_NAME = "xxhash64-seed42"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column by its name and the text of its type, e.g. `decimal128(15, 2)`."""

    name: str
    type: str

    @property
    def arrow(self) -> pa.Field:
        return pa.field(self.name, parse_type(self.type))


@dataclass(frozen=True, kw_only=True)
class Version:
    """One immutable state of the table. `key` columns come first in `columns`."""

    number: int
    committed_us: int
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    page_bytes: int
    shards: tuple[ShardInfo, ...]

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)

    @property
    def pages(self) -> int:
        return sum(shard.pages for shard in self.shards)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.arrow for column in self.columns])

    @property
    def fingerprint(self) -> str:
        """Tells its content from that of every other version, whatever store that is in and whatever its number.

        Numbers do not: a copied store goes on counting from where the original stood, and a restored one
        counts again. The names and seeds of shard files are drawn anew for every file.
        """
        columns = [(column.name, column.type) for column in self.columns]
        files = [(shard.file, shard.seed, shard.rows, shard.bytes) for shard in self.shards]
        content = [self.committed_us, self.key, columns, self.page_bytes, files]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    store_id: str
    versions: tuple[Version, ...]

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def version(self, number: int) -> Version | None:
        return next((version for version in self.versions if version.number == number), None)

    def with_version(self, version: Version, *, keep: int) -> Manifest:
        return replace(self, versions=(*self.versions, version)[-keep:])

    def next_commit_us(self) -> int:
        """Commit times rise strictly, even if the clock does not."""
        now = time.time_ns() // 1000
        return max(now, self.versions[-1].committed_us + 1) if self.versions else now

    def write(self, store: Path) -> None:
        body = json.dumps(
            {
                "store_id": self.store_id,
                "hash": HASH_NAME,
                "versions": [asdict(version) for version in self.versions],
            },
            indent=1,
        )
        envelope = {"format": FORMAT_VERSION, "checksum": zlib.crc32(body.encode()), "body": json.loads(body)}
        write_atomically(store / FILE_NAME, json.dumps(envelope, indent=1).encode())

    @classmethod
    def read(cls, store: Path) -> Manifest:
        """StoreError if there is no store or a newer one; CorruptionError if the manifest is damaged."""
        path = store / FILE_NAME
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            found = "exists but holds no store" if store.exists() else "does not exist"
            raise StoreError(
                f"no master table at {store}: the path {found}.",
                hint="prepare one with ss.prepare(df, path, key=...) or `semistream prepare`.",
            ) from None
        except OSError as error:
            raise StoreError(
                f"the manifest {path} cannot be read: {error.strerror or error}.",
                hint="a store must be readable for whoever joins with it, on every worker.",
            ) from error
        try:
            envelope = json.loads(content)
            found_format = int(envelope["format"])
        except (ValueError, KeyError, TypeError):
            raise CorruptionError(f"the manifest {path} is damaged.", hint=RESTORE_HINT) from None
        if found_format > FORMAT_VERSION:
            raise StoreError(
                f"the store {store} has format {found_format}; this release reads up to {FORMAT_VERSION}.",
                hint="upgrade semistream on this machine, and on every worker.",
            )
        try:
            return _parse(envelope)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"the manifest {path} is damaged ({error}).", hint=RESTORE_HINT) from None


def _parse(envelope: dict[str, Any]) -> Manifest:
    body = envelope["body"]
    if zlib.crc32(json.dumps(body, indent=1).encode()) != envelope["checksum"]:
        raise ValueError("its checksum does not match")
    if body["hash"] != HASH_NAME:
        raise ValueError(f"unknown hash function {body['hash']!r}")
    versions = tuple(_parse_version(raw) for raw in body["versions"])
    if not versions:
        raise ValueError("it names no version")
    return Manifest(store_id=str(body["store_id"]), versions=versions)


def _parse_version(raw: dict[str, Any]) -> Version:
    shards = tuple(ShardInfo(**shard) for shard in raw["shards"])
    for shard in shards:
        parts = PurePosixPath(shard.file).parts
        if shard.file.startswith("/") or ".." in parts or "\\" in shard.file:
            raise ValueError(f"file name {shard.file!r} leads out of the store")
    version = Version(
        number=int(raw["number"]),
        committed_us=int(raw["committed_us"]),
        key=tuple(raw["key"]),
        columns=tuple(Column(**column) for column in raw["columns"]),
        page_bytes=int(raw["page_bytes"]),
        shards=shards,
    )
    if tuple(column.name for column in version.columns[: len(version.key)]) != version.key:
        raise ValueError("the key columns are not the first columns")
    if not shards or version.page_bytes < 1:
        raise ValueError("it names no shards")
    assert version.schema is not None
    return version


_PLAIN_TYPES = {
    str(kind): kind
    for kind in (
        pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
        pa.date32(), pa.string(), pa.binary(), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    )
}  # fmt: skip


def parse_type(text: str) -> pa.DataType:
    """The type whose `str` is `text`; ValueError if a master table cannot hold it."""
    if text in _PLAIN_TYPES:
        return _PLAIN_TYPES[text]
    if text.startswith("decimal128(") and text.endswith(")"):
        precision, scale = text[len("decimal128(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    raise ValueError(f"unknown column type {text!r}")
