"""The one place that touches files: positioned reads of many ranges at once, and atomic writes.

An object store would implement `RangeFile` with ranged requests; nothing above this module would change.
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


class RangeFile(Protocol):
    """Random access to an immutable file. Safe to share between reads of one thread."""

    @property
    def size_bytes(self) -> int: ...

    def prefetch(self, offsets: I64, lengths: I64) -> None:
        """Start reading these ranges; returns without waiting."""

    def read_into(self, offsets: I64, lengths: I64, target: npt.NDArray[np.uint8]) -> None:
        """The ranges one after the other into `target`; EOFError if the file ends before a range does."""

    def close(self) -> None: ...


# Resolved by name in the C library when the kernel is linked, so the compiled kernels can be cached.
_pread = types.ExternalFunction(
    "pread", types.int64(types.int32, types.int64, types.int64, types.int64)
)
_posix_fadvise = types.ExternalFunction(
    "posix_fadvise", types.int32(types.int32, types.int64, types.int64, types.int32)
)
_WILL_NEED = getattr(os, "POSIX_FADV_WILLNEED", 3)


@njit(cache=True, nogil=True)
def _read_ranges(descriptor, offsets, lengths, target):  # type: ignore[no-untyped-def]
    """-1, or the first range that could not be read whole."""
    for i in range(offsets.size):
        done = np.int64(0)
        while done < lengths[i]:
            count = _pread(descriptor, target + done, lengths[i] - done, offsets[i] + done)
            if count <= 0:
                return i
            done += count
        target += lengths[i]
    return -1


@njit(cache=True, nogil=True)
def _advise_ranges(descriptor, offsets, lengths, advice):  # type: ignore[no-untyped-def]
    for i in range(offsets.size):
        _posix_fadvise(descriptor, offsets[i], lengths[i], advice)


class LocalFile:
    """A `RangeFile` on any path the operating system can open.

    Reads are system calls made by a kernel, not a mapping: a file that shrinks gives an error instead of
    killing the process, and the bytes read are in buffers that the budget knows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._descriptor).st_size

    def prefetch(self, offsets: I64, lengths: I64) -> None:
        _advise_ranges(np.int32(self._descriptor), offsets, lengths, np.int32(_WILL_NEED))

    def read_into(self, offsets: I64, lengths: I64, target: npt.NDArray[np.uint8]) -> None:
        assert int(lengths.sum()) <= target.size
        failed = _read_ranges(np.int32(self._descriptor), offsets, lengths, address_of(target))
        if failed >= 0:
            # The kernel cannot see errno; asking again through Python raises the true error, if there is one.
            os.pread(self._descriptor, int(lengths[failed]), int(offsets[failed]))
            raise EOFError(f"{self.path} ends before byte {int(offsets[failed] + lengths[failed])}")

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


