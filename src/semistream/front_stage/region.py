"""The memory a front stage lives in: private, or a mapped file that outlives the process.

Spark hands a task to whichever worker process is free, so a cache that is to survive from one micro-batch
to the next belongs to a file. The file is soft state: it is used by one process at a time, under a lock
that the operating system drops when the process dies; whoever does not get the lock works without it.

    /dev/shm/semistream-UID/QUERY/JOIN-SETUP-TASK.front    and RUN.run, made when the query's run came here

Files are of one host: where a query's tasks wander between hosts, each host keeps those that were there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from semistream.core.arrow import address_of

DIRECTORY_VARIABLE = "SEMISTREAM_FRONT_STAGE_DIR"
UNUSED_SECONDS_MAX = 3600
_FRONT_STAGE, _RUN = ".front", ".run"


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Whose front stage it is: one task of one join of one query.

    `run_id` is new at every start of the query. `join` is the same for a join at all starts, `setup` only while
    it has the same tasks, memory and table version: what was remembered with another setup is of no use to it.
    """

    query_id: str
    run_id: str
    join: str
    setup: str
    task: int

    @property
    def join_prefix(self) -> str:
        return f"{_digest(self.join)}-"

    @property
    def setup_prefix(self) -> str:
        return f"{self.join_prefix}{_digest(self.setup)}-"

    @property
    def file_name(self) -> str:
        return f"{self.setup_prefix}{self.task}{_FRONT_STAGE}"


class Region:
    """`size_bytes` of zeroed or remembered memory. `fresh` says that nothing was remembered."""

    def __init__(self, memory: mmap.mmap, *, fresh: bool, descriptor: int = -1) -> None:
        self._memory, self._descriptor = memory, descriptor
        self.fresh = fresh
        self.file_id = _file_id(descriptor) if descriptor >= 0 else None
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self.size_bytes = self.bytes.size

    @property
    def is_private(self) -> bool:
        """Nobody will find it again."""
        return self._descriptor < 0

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
        descriptor = _locked(path, os.O_RDWR | os.O_CREAT)
        if descriptor is None:
            return None
        try:
            fresh = os.fstat(descriptor).st_size != size_bytes
            if fresh:
                os.ftruncate(descriptor, 0)
                # Without room for it a later store into the mapping would kill the process.
                os.posix_fallocate(descriptor, 0, size_bytes)
            os.utime(descriptor)
            return cls(mmap.mmap(descriptor, size_bytes), fresh=fresh, descriptor=descriptor)
        except OSError:
            path.unlink(missing_ok=True)
            os.close(descriptor)
            raise

    @classmethod
    def of_query(cls, owner: Owner, size_bytes: int) -> Region | None:
        """The owner's front stage on this host, in memory-backed storage if it has room; None if another process
        uses it. Where no place has room for it, a private one, which is forgotten when closed.

        The directory belongs to this user alone. What nobody has used for an hour is removed, and what the same
        join kept in an earlier run of the query with another setup, before the new one takes its room.
        """
        bases = _bases()
        for base in bases:
            with contextlib.suppress(OSError):
                _check_private(base)
                _remove_unused(base)
                _remove_replaced(base / owner.query_id, owner)
        for base in bases:
            with contextlib.suppress(OSError):
                base.mkdir(mode=0o700, exist_ok=True)
                _check_private(base)
                directory = base / owner.query_id
                directory.mkdir(mode=0o700, exist_ok=True)
                os.utime(directory)
                _run_began(directory, owner.run_id)
                return cls.shared(directory / owner.file_name, size_bytes)
        return cls.private(size_bytes)

    def give_back(self, start: int) -> None:
        """The bytes from `start` on are not needed: private memory goes back to the system, and is zero if it is
        used again. A file keeps them."""
        if self.is_private:
            first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
            if first < self.size_bytes:
                self._memory.madvise(mmap.MADV_DONTNEED, first, self.size_bytes - first)

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


def remove_all() -> tuple[int, int]:
    """Removes every front stage of this user on this host that no task uses at this moment: (files, bytes).

    A query that runs goes on without what it had remembered.
    """
    files = size_bytes = 0
    for base in _bases():
        directories: list[Path] = []
        with contextlib.suppress(OSError):
            _check_private(base)
            directories.extend(base.iterdir())
        for directory in directories:
            with contextlib.suppress(OSError):
                for file in directory.glob(f"*{_FRONT_STAGE}"):
                    found = file.stat().st_size
                    if _remove_if_free(file):
                        files, size_bytes = files + 1, size_bytes + found
                _remove_if_empty(directory)
    return files, size_bytes


def _roots() -> list[Path]:
    chosen = os.environ.get(DIRECTORY_VARIABLE)
    return [Path(chosen)] if chosen else [Path("/dev/shm"), Path(tempfile.gettempdir())]


def _bases() -> list[Path]:
    return [root / f"semistream-{os.getuid()}" for root in _roots()]


def _check_private(base: Path) -> None:
    """OSError for a directory that is not there, or in which others may write."""
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{base} is not for this user alone")


def _remove_unused(base: Path) -> None:
    """Removes every front stage that no process has opened for a while, of whatever query."""
    oldest = time.time() - UNUSED_SECONDS_MAX
    for directory in base.iterdir():
        with contextlib.suppress(OSError):
            is_old = directory.stat().st_mtime < oldest
            for file in directory.glob(f"*{_FRONT_STAGE}"):
                if file.stat().st_mtime < oldest:
                    _remove_if_free(file)
            if is_old:
                _remove_if_empty(directory)


def _remove_replaced(directory: Path, owner: Owner) -> None:
    """Removes what the same join remembered with another setup, before this run of the query.

    A query may hold the same join twice, with different memory. Then both are at work, and each finds its front
    stage opened in this run, whoever came first.
    """
    began_ns = _run_began(directory, owner.run_id)
    for file in directory.glob(f"{owner.join_prefix}*{_FRONT_STAGE}"):
        if not file.name.startswith(owner.setup_prefix) and file.stat().st_mtime_ns < began_ns:
            _remove_if_free(file)


def _run_began(directory: Path, run_id: str) -> int:
    """When this run of the query came to this directory, by the clock that times its files."""
    mark = directory / f"{_digest(run_id)}{_RUN}"
    try:
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    else:
        for other in directory.glob(f"*{_RUN}"):
            if other != mark:
                other.unlink(missing_ok=True)
    return mark.stat().st_mtime_ns


def _remove_if_empty(directory: Path) -> None:
    """OSError if it still holds a front stage."""
    for mark in directory.glob(f"*{_RUN}"):
        mark.unlink(missing_ok=True)
    directory.rmdir()


def _remove_if_free(file: Path) -> bool:
    """Unlinked under its lock, so whoever opened it meanwhile sees that it is gone; see `_locked`."""
    descriptor = _locked(file, os.O_RDWR)
    if descriptor is None:
        return False
    try:
        file.unlink()
    finally:
        os.close(descriptor)
    return True


def _locked(path: Path, flags: int) -> int | None:
    """A descriptor with the file's lock, which goes when it is closed; None if another process has it."""
    while True:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # someone removed it between the two calls


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def boot_id() -> str:
    """Changes when the machine restarts: a file half written back by then must not be believed."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
