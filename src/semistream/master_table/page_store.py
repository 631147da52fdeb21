"""`MasterTable`: a prepared table on disk, opened for reading."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from semistream.core.keys import KeyEncoder
from semistream.core.rows import RowLayout
from semistream.errors import ConfigError, CorruptionError, StoreError
from semistream.master_table.location import local_path
from semistream.master_table.manifest import Manifest, Version
from semistream.master_table.shard_file import ShardReader, short_bytes


class MasterTable:
    """One version of a prepared master table. Immutable: a refresh makes a new version, this one stays.

    Cost of opening: one small file. Shards are opened by those who read them.

    >>> customers = MasterTable.open("warehouse/customers")    # doctest: +SKIP
    >>> customers.rows, customers.key                          # doctest: +SKIP
    (150000, ('custkey',))
    """

    def __init__(self, path: Path, store_id: str, version: Version) -> None:
        self._path, self.store_id, self.info = path, store_id, version

    @classmethod
    def open(cls, path: str | Path, *, version: int | None = None) -> MasterTable:
        """The newest version, or the one asked for; StoreError if there is none."""
        store = local_path(path)
        manifest = Manifest.read(store)
        found = manifest.newest if version is None else manifest.version(version)
        if found is None:
            numbers = ", ".join(str(each.number) for each in manifest.versions)
            raise StoreError(
                f"the store {store} has no version {version} (it has {numbers}).",
                hint="the version was replaced; open the store again.",
            )
        return cls(store, manifest.store_id, found)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def schema(self) -> pa.Schema:
        """All columns, the key columns first."""
        return self.info.schema

    @property
    def key(self) -> tuple[str, ...]:
        return self.info.key

    @property
    def rows(self) -> int:
        return self.info.rows

    @property
    def bytes(self) -> int:
        return self.info.bytes

    @property
    def pages(self) -> int:
        return self.info.pages

    @property
    def page_bytes(self) -> int:
        return self.info.page_bytes

    @property
    def shards(self) -> int:
        return len(self.info.shards)

    @property
    def version(self) -> int:
        return self.info.number

    @property
    def fingerprint(self) -> str:
        """Equal for two tables only if they hold the same files; see `Version.fingerprint`."""
        return self.info.fingerprint

    def check_is(self, fingerprint: str) -> None:
        """StoreError if this is another version than the one of that fingerprint, though its number may be equal."""
        if self.fingerprint != fingerprint:
            raise StoreError(
                f"version {self.version} of the master table at {self._path} was replaced by another one of the "
                "same number.",
                hint="the store was restored, or removed, and then prepared again; start the query again.",
            )

    @property
    def value_schema(self) -> pa.Schema:
        """The columns that are not part of the key: what a row holds beside its key."""
        return pa.schema([self.schema.field(i) for i in range(len(self.key), len(self.schema))])

    @property
    def layout(self) -> RowLayout:
        return RowLayout(self.value_schema, short_bytes(self.page_bytes))

    @property
    def key_encoder(self) -> KeyEncoder:
        return KeyEncoder([self.schema.field(name).type for name in self.key])

    def fence_bytes(self, shards: list[int]) -> int:
        """Memory that the fences of these shards take while they are open."""
        return sum(self.info.shards[shard].fence_bytes for shard in shards)

    def open_shard(self, shard: int) -> ShardReader:
        """CorruptionError if the file is missing, cut off, or its fences are damaged; StoreError if this
        version was replaced meanwhile."""
        if not 0 <= shard < self.shards:
            raise ConfigError(f"there is no shard {shard} (of {self.shards}).", hint="count from 0.")
        info = self.info.shards[shard]
        file = self._path / info.file
        try:
            return ShardReader.open(file, info, page_bytes=self.page_bytes, fixed=self.key_encoder.fixed)
        except CorruptionError:
            if not file.exists():
                MasterTable.open(self._path, version=self.version).check_is(self.fingerprint)
            raise
        except OSError as error:
            raise _not_opened(file, error, self.shards) from error

    def verify(self) -> Iterator[int]:
        """Checks every page of every shard; yields counts of pages for a progress bar."""
        for shard in range(self.shards):
            reader = self.open_shard(shard)
            try:
                yield from reader.verify()
            finally:
                reader.close()

    def __repr__(self) -> str:
        return (
            f"MasterTable({str(self._path)!r}, key={list(self.key)}, rows={self.rows:,}, pages={self.pages:,}, "
            f"shards={self.shards}, version={self.version})"
        )


def _not_opened(file: Path, error: OSError, shards: int) -> StoreError:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return StoreError(
            f"the shard file {file} cannot be opened: this process may not have more files open, and the table has "
            f"{shards:,} shards.",
            hint="raise the limit (ulimit -n) for Spark's workers, use more tasks=, or prepare the table with fewer "
            "shards=.",
        )
    return StoreError(
        f"the shard file {file} cannot be opened: {error.strerror or error}.",
        hint="a store must be readable for whoever joins with it, on every worker.",
    )
