"""How shards are read, many blocks at once, whatever they are stored on; and how small files are replaced.

Readers of shards know `BlockFile` and nothing else of files: an object store would implement it with ranged
requests. Shards are written by `builder.write_shard`.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from numba import njit, types

from semistream.core.arrow import address_of

I64 = npt.NDArray[np.int64]

READ_BUFFER_BYTES = 128 << 10
MAPPED_FILES_MAX = 64
_MAPPED_BLOCKS_AT_ONCE = 1 << 14


class BlockFile(Protocol):
    """Random access to an immutable file. Blocks are numbered from the file's start and of one size."""

    @property
    def size_bytes(self) -> int: ...

    def blocks_at_once(self, block_bytes: int) -> int:
        """How many blocks one `fetch` can bring."""

    def prefetch(self, blocks: I64, block_bytes: int) -> None:
        """Start reading these blocks; returns without waiting."""

    def fetch(self, blocks: I64, block_bytes: int) -> I64:
        """The blocks' addresses, good until the next call; EOFError if the file ends before a block does."""

    def read(self, offset: int, target: npt.NDArray[np.uint8]) -> None:
        """The bytes from `offset` on, until `target` is full; EOFError if there are fewer."""

    def let_go(self) -> None:
        """The blocks fetched last are not needed any more: gives their memory back."""

    def close(self) -> None: ...


# Resolved by name in the C library when the kernel is linked, so the compiled kernels can be cached.
_pread = types.ExternalFunction("pread", types.int64(types.int32, types.int64, types.int64, types.int64))
_posix_fadvise = types.ExternalFunction(
    "posix_fadvise", types.int32(types.int32, types.int64, types.int64, types.int32)
)
_madvise = types.ExternalFunction("madvise", types.int32(types.int64, types.int64, types.int32))
_WILL_NEED = os.POSIX_FADV_WILLNEED

# Python's own mmap keeps a descriptor for every mapping, and a process has few of them.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_MAP_FAILED = ctypes.c_void_p(-1).value


@njit(cache=True)
def _read_range(descriptor, offset, size, target):  # type: ignore[no-untyped-def]
    done = np.int64(0)
    while done < size:
        count = _pread(descriptor, target + done, size - done, offset + done)
        if count <= 0:
            return False
        done += count
    return True


@njit(cache=True, nogil=True)
def _read_blocks(descriptor, blocks, block_bytes, target):  # type: ignore[no-untyped-def]
    """-1, or the first block of a run that could not be read whole. Neighbours are read together."""
    i = np.int64(0)
    while i < blocks.size:
        run = np.int64(1)
        while i + run < blocks.size and blocks[i + run] == blocks[i] + run:
            run += 1
        if not _read_range(descriptor, blocks[i] * block_bytes, run * block_bytes, target + i * block_bytes):
            return blocks[i]
        i += run
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _advise_blocks(descriptor, blocks, block_bytes, advice):  # type: ignore[no-untyped-def]
    i = np.int64(0)
    while i < blocks.size:
        run = np.int64(1)
        while i + run < blocks.size and blocks[i + run] == blocks[i] + run:
            run += 1
        _posix_fadvise(descriptor, blocks[i] * block_bytes, run * block_bytes, advice)
        i += run


@njit(cache=True, nogil=True)
def _advise_mapped(base, blocks, block_bytes, page_bytes, advice):  # type: ignore[no-untyped-def]
    """The same for a mapping, which takes advice from the start of a page of the system on."""
    i = np.int64(0)
    while i < blocks.size:
        run = np.int64(1)
        while i + run < blocks.size and blocks[i + run] == blocks[i] + run:
            run += 1
        start, stop = blocks[i] * block_bytes, (blocks[i] + run) * block_bytes
        start -= start % page_bytes
        _madvise(base + start, stop - start, advice)
        i += run


class LocalFile:
    """Reads into a buffer of its own, of READ_BUFFER_BYTES (or one block). For any path one can open."""

    _descriptor = -1

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._buffer = np.empty(0, np.uint8)

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def blocks_at_once(self, block_bytes: int) -> int:
        return read_buffer_bytes(block_bytes) // block_bytes

    def prefetch(self, blocks: I64, block_bytes: int) -> None:
        _advise_blocks(np.int32(self._descriptor), blocks, block_bytes, np.int32(_WILL_NEED))

    def fetch(self, blocks: I64, block_bytes: int) -> I64:
        assert blocks.size <= self.blocks_at_once(block_bytes)
        if not self._buffer.size:
            self._buffer = np.empty(self.blocks_at_once(block_bytes) * block_bytes, np.uint8)
        failed = _read_blocks(np.int32(self._descriptor), blocks, block_bytes, address_of(self._buffer))
        if failed >= 0:
            self._explain(int(failed) * block_bytes, block_bytes)
        return address_of(self._buffer) + block_bytes * np.arange(blocks.size, dtype=np.int64)

    def let_go(self) -> None:
        self._buffer = np.empty(0, np.uint8)

    def read(self, offset: int, target: npt.NDArray[np.uint8]) -> None:
        if not _read_range(np.int32(self._descriptor), offset, target.size, address_of(target)):
            self._explain(offset, target.size)

    def _explain(self, offset: int, size: int) -> None:
        # The kernel cannot see errno; asking again through Python raises the true error, if there is one.
        os.pread(self._descriptor, size, offset)
        raise EOFError(f"{self.path} ends before byte {offset + size}")

    def close(self) -> None:
        self._release()

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self._release()


class MappedFile:
    """Hands out addresses in the system's page cache: no copy, and no memory of its own. Once mapped, a file
    takes no descriptor: a task may have thousands open.

    The mapped bytes are the system's, to drop whenever it likes; they are not part of any budget.
    """

    _base = 0
    _unmap = staticmethod(_libc.munmap)  # the module's own names may be gone when the last files are closed

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            self._file_id, self._mapped_bytes = (found.st_dev, found.st_ino), found.st_size
            base = _libc.mmap(None, found.st_size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        finally:
            os.close(descriptor)
        if base == _MAP_FAILED:  # an empty file, too
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(path))
        self._base = int(base)
        _libc.madvise(self._base, self._mapped_bytes, mmap.MADV_RANDOM)

    @property
    def size_bytes(self) -> int:
        """Its size now: to touch a mapped byte behind the end of a file that was cut would kill the process."""
        found = self._found()
        return self._mapped_bytes if found is None else found.st_size

    @property
    def is_removed(self) -> bool:
        return self._found() is None

    def _found(self) -> os.stat_result | None:
        """None if its name is gone, or another file's. Then nobody can cut it any more, and it stays as mapped."""
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found if (found.st_dev, found.st_ino) == self._file_id else None

    def blocks_at_once(self, block_bytes: int) -> int:
        return _MAPPED_BLOCKS_AT_ONCE

    def prefetch(self, blocks: I64, block_bytes: int) -> None:
        _advise_mapped(self._base, blocks, block_bytes, mmap.PAGESIZE, np.int32(mmap.MADV_WILLNEED))

    def fetch(self, blocks: I64, block_bytes: int) -> I64:
        if blocks.size:
            self._check((int(blocks[-1]) + 1) * block_bytes)
        return self._base + blocks * block_bytes

    def read(self, offset: int, target: npt.NDArray[np.uint8]) -> None:
        self._check(offset + target.size)
        ctypes.memmove(address_of(target), self._base + offset, target.size)

    def _check(self, stop: int) -> None:
        if stop > min(self.size_bytes, self._mapped_bytes):
            raise EOFError(f"{self.path} ends before byte {stop}")

    def let_go(self) -> None:
        """Mapped pages belong to the system."""

    def close(self) -> None:
        """Stays mapped for the next task of this process; see `open_file`."""

    def __del__(self) -> None:
        if self._base:
            self._unmap(self._base, self._mapped_bytes)


_mapped: OrderedDict[tuple[str, int, int, int], MappedFile] = OrderedDict()


def is_mapping_allowed() -> bool:
    """A limited address space (spark.executor.pyspark.memory sets one) has no room for large mappings."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def read_buffer_bytes(block_bytes: int) -> int:
    """The most memory that a file's reader takes; where files can be mapped, none."""
    return max(READ_BUFFER_BYTES, block_bytes)


def open_file(path: Path) -> BlockFile:
    """The file, mapped if the process's address space is not limited.

    Mappings are kept for the next task of this process: what costs is not opening a file but finding its
    pages again. They are few, and cost no memory; a file that was replaced or cut is opened anew.
    """
    if not is_mapping_allowed():
        return LocalFile(path)
    found = path.stat()
    identity = (str(path), found.st_dev, found.st_ino, found.st_size)
    if identity not in _mapped:
        for removed in [known for known, file in _mapped.items() if file.is_removed]:
            del _mapped[removed]  # its disk space is free only when nobody has it mapped
        try:
            _mapped[identity] = MappedFile(path)
        except OSError:  # an empty file, or a file system that cannot map
            return LocalFile(path)
    _mapped.move_to_end(identity)
    while len(_mapped) > MAPPED_FILES_MAX:
        _mapped.popitem(last=False)
    return _mapped[identity]


DRAFT_SUFFIX = ".draft"


def write_atomically(path: Path, content: bytes) -> None:
    """Readers see the old content or the new, never a mixture; the new one survives a power cut. A process
    killed meanwhile leaves a file whose name ends in DRAFT_SUFFIX."""
    draft = path.with_name(f".{path.name}.{os.getpid()}{DRAFT_SUFFIX}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def exclusive_lock(path: Path) -> Iterator[bool]:
    """Yields whether the lock was free. It is released when the process ends, however it ends."""
    import fcntl

    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
