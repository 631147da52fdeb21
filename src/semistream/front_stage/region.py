"""The memory a front stage lives in: private, or a mapped file that outlives the process.

Spark hands a task to whichever worker process is free, so a cache that is to survive from one micro-batch
to the next belongs to a file. The file is soft state: it is used by one process at a time, under a lock
that the operating system drops when the process dies; whoever does not get the lock works without it.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from semistream.core.arrow import address_of

DIRECTORY_VARIABLE = "SEMISTREAM_FRONT_STAGE_DIR"
UNUSED_SECONDS_MAX = 3600


class Region:
    """`size_bytes` of zeroed or remembered memory. `fresh` says that nothing was remembered."""

    def __init__(self, memory: mmap.mmap, *, fresh: bool, descriptor: int = -1) -> None:
        self._memory, self._descriptor = memory, descriptor
        self.fresh = fresh
        self.file_id = _file_id(descriptor) if descriptor >= 0 else None
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self.size_bytes = self.bytes.size

    @property
    def address(self) -> int:
        return address_of(self.bytes)

    @classmethod
    def private(cls, size_bytes: int) -> Region:
        return cls(mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), fresh=True)

    @classmethod
    def shared(cls, path: Path, size_bytes: int) -> Region | None:
        """The file's memory, locked for this process; None if another process has it. OSError if there is no
        room for it, or no right to write there."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh = os.fstat(descriptor).st_size != size_bytes
            if fresh:
                os.ftruncate(descriptor, 0)
                # Without room for it a later store into the mapping would kill the process.
                os.posix_fallocate(descriptor, 0, size_bytes)
            os.utime(descriptor)
            return cls(mmap.mmap(descriptor, size_bytes), fresh=fresh, descriptor=descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            path.unlink(missing_ok=True)
            os.close(descriptor)
            raise

    @classmethod
    def of_query(cls, query_id: str, name: str, size_bytes: int) -> Region | None:
        """The front stage `name` of a query on this machine, in memory-backed storage if it has room; None if
        another process uses it. Where no place has room for it, a private one, which is forgotten when closed.

        The directory belongs to this user alone; what nobody has used for an hour is removed.
        """
        for root in _roots():
            base = root / f"semistream-{os.getuid()}"
            try:
                base.mkdir(mode=0o700, exist_ok=True)
                found = base.lstat()
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
                    continue
                _remove_unused(base)
                directory = base / query_id
                directory.mkdir(mode=0o700, exist_ok=True)
                os.utime(directory)
                return cls.shared(directory / f"{name}.front", size_bytes)
            except OSError:
                continue
        return cls.private(size_bytes)

    def close(self) -> None:
        """Gives the lock back. The addresses must not be used any more."""
        self.bytes = np.zeros(0, np.uint8)
        with contextlib.suppress(BufferError):
            self._memory.close()
        if self._descriptor >= 0:
            # The mapping has a descriptor of its own, which shares the lock and may outlive this call.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1


def _file_id(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _roots() -> list[Path]:
    chosen = os.environ.get(DIRECTORY_VARIABLE)
    return [Path(chosen)] if chosen else [Path("/dev/shm"), Path(tempfile.gettempdir())]


def _remove_unused(base: Path) -> None:
    """Removes every front stage that no process has opened for a while, of whatever query."""
    oldest = time.time() - UNUSED_SECONDS_MAX
    for directory in base.iterdir():
        with contextlib.suppress(OSError):
            is_old = directory.stat().st_mtime < oldest
            for file in directory.iterdir():
                if file.stat().st_mtime < oldest and not _is_locked(file):
                    file.unlink()
            if is_old:
                directory.rmdir()  # fails if it still holds anything


def _is_locked(file: Path) -> bool:
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def boot_id() -> str:
    """Changes when the machine restarts: a file half written back by then must not be believed."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
