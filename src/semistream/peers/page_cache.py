"""The system's page cache, file by file: dropped, filled, and asked what it holds. Never that of the whole machine."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

_READ_BYTES = 4 << 20
_WARM_SHARE_MIN = 0.999
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_MAP_FAILED = ctypes.c_void_p(-1).value


def files_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def sync(files: Iterable[Path]) -> None:
    """What is not on the disk yet cannot be dropped."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def drop(files: Iterable[Path]) -> None:
    """The page cache gives these files up, but for pages that a process has mapped; see `release_mappings`."""
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # a database's temporary file
            continue
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def fill(files: Iterable[Path]) -> None:
    """Reads through the files that the page cache does not hold."""
    buffer = bytearray(_READ_BYTES)
    for path in files:
        if not path.is_file() or resident_share([path]) >= _WARM_SHARE_MIN:
            continue
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def resident_share(files: Iterable[Path]) -> float:
    """The share of the files' pages that the page cache holds; 0 without files."""
    resident = pages = 0
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            found = _resident_pages(descriptor)
        finally:
            os.close(descriptor)
        resident, pages = resident + int(found.sum()), pages + found.size
    return resident / pages if pages else 0.0


def _resident_pages(descriptor: int) -> npt.NDArray[np.uint8]:
    """One for every page of the file that the page cache holds, zero for every other."""
    size = os.fstat(descriptor).st_size
    flags = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    if not size:
        return flags
    # Python's own mapping does not tell its address. Nothing is touched, so nothing is read.
    base = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if base == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "mmap failed")
    try:
        if _libc.mincore(base, size, flags.ctypes.data):
            raise OSError(ctypes.get_errno(), "mincore failed")
    finally:
        _libc.munmap(base, size)
    return np.bitwise_and(flags, 1, dtype=np.uint8)


def release_mappings(files: Iterable[Path]) -> None:
    """Takes the pages of these files out of this process's address space; the next touch finds them again.

    Only of shared mappings, of which nothing can be lost by this.
    """
    wanted = {str(path.resolve()) for path in files}
    if not wanted:
        return
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[1].endswith("s") and fields[5] in wanted:
            start, stop = (int(part, 16) for part in fields[0].split("-"))
            _libc.madvise(start, stop - start, mmap.MADV_DONTNEED)
