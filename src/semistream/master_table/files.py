"""The one place that touches files: reads of many blocks at once, and atomic writes.

An object store would implement `BlockFile` with ranged requests; nothing above this module would change.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from numba import njit, types

from semistream.core.arrow import address_of

I64 = npt.NDArray[np.int64]


class BlockFile(Protocol):
    """Random access to an immutable file. Blocks are numbered from the file's start and of one size."""

    @property
    def size_bytes(self) -> int: ...

    def prefetch(self, blocks: I64, block_bytes: int) -> None:
        """Start reading these blocks; returns without waiting."""

    def read_blocks(self, blocks: I64, block_bytes: int, target: npt.NDArray[np.uint8]) -> None:
        """The blocks one after the other into `target`; EOFError if the file ends before a block does."""

    def read(self, offset: int, target: npt.NDArray[np.uint8]) -> None:
        """The bytes from `offset` on, until `target` is full; EOFError if there are fewer."""

    def close(self) -> None: ...


# Resolved by name in the C library when the kernel is linked, so the compiled kernels can be cached.
_pread = types.ExternalFunction(
    "pread", types.int64(types.int32, types.int64, types.int64, types.int64)
)
_posix_fadvise = types.ExternalFunction(
    "posix_fadvise", types.int32(types.int32, types.int64, types.int64, types.int32)
)
_WILL_NEED = getattr(os, "POSIX_FADV_WILLNEED", 3)


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


class LocalFile:
    """A `BlockFile` on any path the operating system can open.

    Reads are system calls made by a kernel, not a mapping: a file that shrinks gives an error instead of
    killing the process, and the bytes read are in buffers that the budget knows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def prefetch(self, blocks: I64, block_bytes: int) -> None:
        _advise_blocks(np.int32(self._descriptor), blocks, block_bytes, np.int32(_WILL_NEED))

    def read_blocks(self, blocks: I64, block_bytes: int, target: npt.NDArray[np.uint8]) -> None:
        assert blocks.size * block_bytes <= target.size
        failed = _read_blocks(np.int32(self._descriptor), blocks, block_bytes, address_of(target))
        if failed >= 0:
            self._explain(int(failed) * block_bytes, block_bytes)

    def read(self, offset: int, target: npt.NDArray[np.uint8]) -> None:
        if not _read_range(np.int32(self._descriptor), offset, target.size, address_of(target)):
            self._explain(offset, target.size)

    def _explain(self, offset: int, size: int) -> None:
        # The kernel cannot see errno; asking again through Python raises the true error, if there is one.
        os.pread(self._descriptor, size, offset)
        raise EOFError(f"{self.path} ends before byte {offset + size}")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def write_atomically(path: Path, content: bytes) -> None:
    """Readers see the old content or the new, never a mixture; the new one survives a power cut."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
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


