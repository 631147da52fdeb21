"""The parent's end of a contestant's process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from typing import Any

from semistream.peers.contract import Setting
from semistream.peers.memory import tree
from semistream.peers.worker import serve
from semistream.workloads.zipf import ZipfConfig

_CLOSE_S = 60.0


class FailedError(Exception):
    """The contestant reported a failure, took too long, or its process ended."""


class PeerProcess:
    """Started anew and not forked, so that it holds nothing of ours."""

    def __init__(self, name: str, setting: Setting, zipf: ZipfConfig) -> None:
        setting.home.parent.mkdir(parents=True, exist_ok=True)
        spawned = multiprocessing.get_context("spawn")
        self._log = setting.home.parent / f"{name}.log"
        self._connection, theirs = spawned.Pipe()
        self._process = spawned.Process(target=serve, args=(theirs, name, setting, zipf, self._log))
        self._is_stuck = False
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def ask(self, method: str, *arguments: Any, limit_s: float) -> Any:
        """What the worker's method returns; FailedError with the reason, after which only `close` may be called."""
        started = time.monotonic()
        try:
            self._connection.send((method, arguments))
            if not self._connection.poll(limit_s):
                self._is_stuck = True
                raise FailedError(f"{method}: stopped after {time.monotonic() - started:.0f} s.")
            status, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(5)
            raise FailedError(
                f"{method}: its process ended (status {self._process.exitcode}); see {self._log.name}."
            ) from error
        if status == "failed":
            raise FailedError(str(answer))
        return answer

    def close(self) -> None:
        """Asks it to end, unless it did not answer the last time, and ends whatever of it is left then."""
        family = tree(self.pid)
        if self._process.is_alive() and not self._is_stuck:
            with contextlib.suppress(FailedError):
                self.ask("close", limit_s=_CLOSE_S)
            self._process.join(5)
        for pid in reversed(family):
            if _is_ours(pid, family):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.join()
        self._connection.close()


def _is_ours(pid: int, family: list[int]) -> bool:
    """Still the process that we saw: its parent is of the family, or it was left to the first process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return False
    return parent in (*family, os.getpid(), 1)
