"""Building a version: a draft on the driver, shard files written anywhere, one atomic commit.

The same draft serves Spark (`semistream.spark.prepare`) and the Spark-free `build_store`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from semistream.core.budget import parse_bytes
from semistream.core.keys import KeyEncoder, canonical_type
from semistream.core.rows import RowLayout, value_width_bytes
from semistream.errors import ConfigError, CorruptionError, SchemaError, StoreError
from semistream.master_table._page_kernels import UNSEALED
from semistream.master_table.files import DRAFT_SUFFIX, exclusive_lock, sync_directory
from semistream.master_table.location import local_path
from semistream.master_table.manifest import FILE_NAME, Column, Manifest, Version
from semistream.master_table.page_store import MasterTable
from semistream.master_table.shard_file import ShardInfo, ShardWriter, short_bytes

PAGE_BYTES_MIN = 512
PAGE_BYTES_MAX = 1 << 24
SHARDS_MAX = 10_000
VERSIONS_KEPT = 2  # the newest, and the one that running queries may still read
SHARD_DIRECTORY = "shards"
LOCK_FILE = ".prepare.lock"


@dataclass(frozen=True, kw_only=True)
class ShardSpec:
    """All that a writer of one shard needs to know; travels to the workers."""

    store: str
    directory: str
    columns: tuple[Column, ...]
    key_columns: int
    page_bytes: int
    shards: int

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([column.arrow for column in self.columns])


def write_shard(spec: ShardSpec, shard: int, batches: Iterable[pa.RecordBatch]) -> ShardInfo:
    """Writes rows that are sorted by key, and all belong to `shard`, into a new file.

    Memory: one batch, and a write buffer of 1 MiB or two pages. A second attempt writes a second file: the manifest names one.
    """
    schema, count = spec.schema, spec.key_columns
    encoder = KeyEncoder([field.type for field in list(schema)[:count]])
    layout = RowLayout(pa.schema(list(schema)[count:]), short_bytes(spec.page_bytes))
    name = f"{spec.directory}/{shard:05d}-{secrets.token_hex(4)}.pages"
    path = Path(spec.store) / name
    try:
        with path.open("wb") as file:
            seed = secrets.randbelow(int(UNSEALED))
            writer = ShardWriter(
                file, page_bytes=spec.page_bytes, layout=layout, fixed=encoder.fixed, seed=seed
            )
            for batch in batches:
                rows = conform(batch, schema)
                keys = rows.columns[:count]
                _check_shard(encoder, keys, spec.shards, shard)
                writer.write(encoder.encode(keys), rows.columns[count:])
            info = writer.close(name)
            file.flush()
            os.fsync(file.fileno())
            return info
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _not_written(f"shard {shard}", path, error) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _not_written(what: str, path: Path, error: OSError) -> StoreError:
    reason = "the disk is full" if error.errno == errno.ENOSPC else str(error)
    return StoreError(
        f"{what} could not be written to {path}: {reason}.",
        hint="make room or choose another path; the version before is untouched.",
    )


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the column types of `schema` (Spark may send large strings or other zones)."""
    if batch.schema.equals(schema):
        return batch
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_shard(encoder: KeyEncoder, keys: list[pa.Array], shards: int, expected: int) -> None:
    found = encoder.shards(keys, shards)
    if found.size and not (found == expected).all():
        raise StoreError(
            f"a row of shard {int(found[found != expected][0])} was sent to shard {expected} of {shards}.",
            hint="Spark's xxhash64 and the core's must agree; please report this with your Spark version.",
        )


class Draft:
    """A version in the making: nothing of it is visible until `commit`; leaving without it removes it."""

    def __init__(self, spec: ShardSpec, key: tuple[str, ...], manifest: Manifest | None) -> None:
        self.spec, self._key, self._manifest = spec, key, manifest

    def commit(self, shards: list[ShardInfo]) -> MasterTable:
        if len(shards) != self.spec.shards:
            raise AssertionError(f"{len(shards)} shard files for {self.spec.shards} shards")
        store = Path(self.spec.store)
        base = self._manifest or Manifest(store_id=secrets.token_hex(16), versions=())
        version = Version(
            number=base.newest.number + 1 if base.versions else 1,
            committed_us=base.next_commit_us(),
            key=self._key,
            columns=self.spec.columns,
            page_bytes=self.spec.page_bytes,
            shards=tuple(shards),
        )
        manifest = base.with_version(version, keep=VERSIONS_KEPT)
        try:
            for directory in (self.spec.directory, SHARD_DIRECTORY):
                sync_directory(store / directory)
            manifest.write(store)
        except OSError as error:
            raise _not_written("the manifest", store / FILE_NAME, error) from error
        with contextlib.suppress(OSError):  # the next build tries again
            remove_leftovers(store, manifest)
        return MasterTable(store, manifest.store_id, version)


@contextlib.contextmanager
def draft_store(
    path: str | Path, *, schema: pa.Schema, key: list[str], shards: int, page_size: int | str, overwrite: bool
) -> Iterator[Draft]:
    """A draft at `path`, with everything checked that can be checked before a row is read."""
    page_bytes = _check_page_bytes(page_size)
    if not 1 <= shards <= SHARDS_MAX:
        raise ConfigError(f"shards={shards} is out of range.", hint=f"choose 1 to {SHARDS_MAX:,} shards.")
    columns = arrange_columns(schema, key)
    store = local_path(path)
    try:
        _take_place(store, overwrite=overwrite)
    except OSError as error:  # a parent is a file, no right to write, a name too long
        raise StoreError(
            f"{store} cannot hold a master table: {error.strerror or error} ({error.filename or store}).",
            hint="choose another path; all of its parents must be directories in which you may write.",
        ) from error
    with exclusive_lock(store / LOCK_FILE) as free:
        if not free:
            raise StoreError(f"{store} is being prepared by another process.", hint="wait for it to finish.")
        manifest = _usable_manifest(store)
        if manifest or not (store / FILE_NAME).exists():
            remove_leftovers(store, manifest)
        directory = f"{SHARD_DIRECTORY}/{secrets.token_hex(8)}"
        (store / directory).mkdir()
        spec = ShardSpec(
            store=str(store),
            directory=directory,
            columns=columns,
            key_columns=len(key),
            page_bytes=page_bytes,
            shards=shards,
        )
        try:
            yield Draft(spec, tuple(key), manifest)
        except BaseException:
            _abandon(store, directory)
            raise


def _take_place(store: Path, *, overwrite: bool) -> None:
    """Makes the store's directories; StoreError if anything is there that must not be touched."""
    if store.exists() and not store.is_dir():
        raise StoreError(f"{store} exists and is a file.", hint="choose another path.")
    if store.exists() and not (store / FILE_NAME).exists() and _is_foreign(store):
        raise StoreError(
            f"{store} exists and is not a master table.", hint="choose another path, or remove it first."
        )
    if (store / FILE_NAME).exists() and not overwrite:
        raise StoreError(f"{store} already holds a master table.", hint="pass overwrite=True to replace it.")
    (store / SHARD_DIRECTORY).mkdir(parents=True, exist_ok=True)
    (store / LOCK_FILE).touch()


def _abandon(store: Path, directory: str) -> None:
    """Removes a draft, unless it was committed: whatever went wrong behind the commit does not undo it."""
    manifest = _usable_manifest(store)
    if manifest and any(Path(shard.file).parent == Path(directory) for shard in manifest.newest.shards):
        return
    shutil.rmtree(store / directory, ignore_errors=True)
    if not (store / FILE_NAME).exists():
        _remove_empty_store(store)


def _usable_manifest(store: Path) -> Manifest | None:
    """None where there is none, or a damaged one: what it named cannot be read any more, only replaced."""
    try:
        return Manifest.read(store) if (store / FILE_NAME).exists() else None
    except CorruptionError:
        return None


def arrange_columns(schema: pa.Schema, key: list[str]) -> tuple[Column, ...]:
    """Key columns first, then the others; SchemaError for missing, doubled or unsupported columns."""
    names = schema.names
    if not key:
        raise ConfigError(
            "no key column was given.", hint='name the column(s) to join on, e.g. key="custkey".'
        )
    for name in key:
        if name not in names:
            raise SchemaError(
                f"there is no key column '{name}'.", hint=f"the columns are: {', '.join(names)}."
            )
    twice = sorted({name for name in names if [n.lower() for n in names].count(name.lower()) > 1})
    if twice or len(set(key)) != len(key):
        raise SchemaError(
            f"column names must differ: {', '.join(twice or key)}.", hint="rename columns before preparing."
        )
    for name in key:
        canonical_type(schema.field(name).type)
    ordered = [*key, *(name for name in names if name not in key)]
    for name in ordered:
        value_width_bytes(schema.field(name).type, name)
    return tuple(Column(name=name, type=str(schema.field(name).type)) for name in ordered)


def remove_leftovers(store: Path, manifest: Manifest | None) -> None:
    """Removes what no version names: drafts of killed builds, and versions that were replaced."""
    named = {
        Path(shard.file) for version in (manifest.versions if manifest else ()) for shard in version.shards
    }
    for directory in (store / SHARD_DIRECTORY).iterdir():
        for file in directory.iterdir():
            if file.relative_to(store) not in named:
                file.unlink(missing_ok=True)
        if not any(directory.iterdir()):
            directory.rmdir()
    for draft in store.glob(f".{FILE_NAME}.*{DRAFT_SUFFIX}"):
        draft.unlink(missing_ok=True)


def build_store(
    table: pa.Table,
    path: str | Path,
    *,
    key: str | list[str],
    shards: int = 1,
    page_size: int | str = "8 KiB",
    overwrite: bool = False,
) -> MasterTable:
    """Prepares an Arrow table that fits in memory, without Spark: for tests and for embedding the core.

    Rows with a null in their key match nothing and are left out. Memory: the table twice.
    """
    keys = [key] if isinstance(key, str) else list(key)
    with draft_store(
        path, schema=table.schema, key=keys, shards=shards, page_size=page_size, overwrite=overwrite
    ) as draft:
        schema = draft.spec.schema
        rows = table.select(schema.names).cast(schema).combine_chunks()
        batch = rows.to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], schema=schema)
        key_columns = batch.columns[: len(keys)]
        encoder = KeyEncoder([column.type for column in key_columns])
        encoded = encoder.encode(key_columns)
        shard_of = encoder.shards(key_columns, shards)
        infos = []
        for shard in range(shards):
            mine = np.flatnonzero((shard_of == shard) & encoded.valid).astype(np.int64)
            order = mine[encoded.take(mine).sort_order()]
            pieces = (batch.take(pa.array(order[at : at + 65536])) for at in range(0, order.size, 65536))
            infos.append(write_shard(draft.spec, shard, pieces))
        return draft.commit(infos)


def _check_page_bytes(page_size: int | str) -> int:
    page_bytes = parse_bytes(page_size, name="page_size")
    if not PAGE_BYTES_MIN <= page_bytes <= PAGE_BYTES_MAX or page_bytes & (page_bytes - 1):
        raise ConfigError(
            f"page_size={page_size!r} is not a page size.",
            hint='choose a power of two from 512 B to "16 MiB".',
        )
    return page_bytes


def _is_foreign(store: Path) -> bool:
    """Is there anything in the directory that a killed first build would not have left?"""
    return any(
        entry.name not in (SHARD_DIRECTORY, LOCK_FILE) and not entry.name.endswith(DRAFT_SUFFIX)
        for entry in store.iterdir()
    )


def _remove_empty_store(store: Path) -> None:
    (store / LOCK_FILE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (store / SHARD_DIRECTORY).rmdir()
        store.rmdir()
