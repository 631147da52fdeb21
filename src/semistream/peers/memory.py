"""How much memory a process and its children take, sampled while they work; the page cache is counted apart."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType

_SAMPLE_S = 0.02
_TREE_S = 0.5
_SHARED_BYTES_MIN = 1 << 20


def tree(pid: int) -> list[int]:
    """The process and all that descend from it, as far as they are still there."""
    found, ahead = [], [pid]
    while ahead:
        found.append(ahead.pop())
        for children in Path(f"/proc/{found[-1]}/task").glob("*/children"):
            try:
                ahead += [int(child) for child in children.read_text().split()]
            except OSError:  # a thread that ended
                continue
    return found


def held_bytes(pids: list[int]) -> tuple[int, int]:
    """(memory of their own, mapped files). Memory that several share is divided among them."""
    own = mapped = 0
    for pid in pids:
        fields = _kilobytes(Path(f"/proc/{pid}/status"))
        shared = fields.get("RssShmem", 0) << 10
        if shared >= _SHARED_BYTES_MIN:
            # Asking for shares walks the page tables, so it is done only where there is something to share.
            shares = _kilobytes(Path(f"/proc/{pid}/smaps_rollup"))
            shared = shares.get("Pss_Shmem", shared >> 10) << 10
        own += (fields.get("RssAnon", 0) << 10) + shared
        mapped += fields.get("RssFile", 0) << 10
    return own, mapped


def _kilobytes(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text().splitlines()
    except OSError:  # the process ended
        return {}
    pairs = (line.split(":", 1) for line in lines if line.endswith(" kB"))
    return {name: int(value.split()[0]) for name, value in pairs}


class MemoryWatch:
    """While entered, a thread looks every 20 ms; `peak_bytes` and `mapped_bytes` are the most that it saw.

    What forked processes still share of their parent's own memory is counted in each of them.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.peak_bytes = self.mapped_bytes = 0

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        pids, asked = tree(self._pid), time.monotonic()
        while True:
            own, mapped = held_bytes(pids)
            self.peak_bytes, self.mapped_bytes = max(self.peak_bytes, own), max(self.mapped_bytes, mapped)
            if self._done.wait(_SAMPLE_S):
                return
            if time.monotonic() - asked > _TREE_S:
                pids, asked = tree(self._pid), time.monotonic()
