"""A contestant in a process of its own: what the parent asks for, one request after the other."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from semistream.errors import SemistreamError
from semistream.peers import page_cache
from semistream.peers.contract import OUTPUT_SCHEMA, Peer, Setting, build_if_missing
from semistream.peers.registry import make_peer
from semistream.workloads.tables import KEY, StreamConfig, stream_batch
from semistream.workloads.zipf import ZipfConfig, ZipfKeys

# Read by libraries when they are loaded.
_THREAD_VARIABLES = ("POLARS_MAX_THREADS", "LANCE_CPU_THREADS", "RAYON_NUM_THREADS", "OMP_NUM_THREADS")
_COLD_ATTEMPTS = 4
COLD_SHARE_MAX = 0.01
_SORT = [(name, "ascending") for name in (KEY, "amount", "quantity")]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Some batches of one cell: from number `first` of the stream in batches of `batch_rows` on, one more than `batches`."""

    batch_rows: int
    first: int
    batches: int
    is_cold: bool


@dataclass(frozen=True, kw_only=True)
class Timed:
    """`resident_share`: of the contestant's files, what the page cache held when a batch began; of a cold turn the
    highest, of a warm one the lowest; None if it has none. `wall_s`: the whole turn, with what is not measured."""

    seconds: list[float]
    resident_share: float | None
    wall_s: float
    given_bytes: int | None
    notes: list[str]


class Worker:
    """The requests. The keys of the stream follow `zipf`."""

    def __init__(self, name: str, setting: Setting, zipf: ZipfConfig) -> None:
        self._name, self._setting = name, setting
        self._zipf, self._keys = zipf, ZipfKeys(zipf)
        self._peer: Peer | None = None

    def build(self) -> bool:
        """Whether there was anything to do."""
        return build_if_missing(make_peer(self._name, self._setting))

    def open(self, batch: pa.RecordBatch, expected: pa.Table) -> None:
        """Opens the contestant, and compares its join of a batch with what is expected, which is sorted."""
        self._peer = make_peer(self._name, self._setting)
        self._peer.open()
        found = self._peer.join(batch).cast(OUTPUT_SCHEMA).sort_by(_SORT).combine_chunks()
        if not found.equals(expected):
            raise RuntimeError(
                f"wrong rows: {found.num_rows:,} came out, {expected.num_rows:,} were expected, and they differ"
            )

    def warm_up(self, batch_rows: int, rows: int, seconds_max: float) -> int:
        """Feeds it the stream from its start, and returns how many rows it got before the time was over."""
        peer, done, give_up = self._opened(), 0, time.monotonic() + seconds_max
        if not peer.learns:
            rows = batch_rows
        while done < rows and time.monotonic() < give_up:
            peer.seconds(self._batch(batch_rows, done // batch_rows))
            done += batch_rows
        return done

    def run(self, turn: Turn) -> Timed:
        """The first batch of a turn is not measured: others have had the processor meanwhile, and Spark ends Python
        workers that idle for a minute."""
        peer, started = self._opened(), time.perf_counter()
        files, seconds, shares = peer.files(), list[float](), list[float]()
        if not turn.is_cold:
            page_cache.fill(files)
        peer.seconds(self._batch(turn.batch_rows, turn.first))
        for number in range(turn.first + 1, turn.first + 1 + turn.batches):
            batch = self._batch(turn.batch_rows, number)
            if turn.is_cold:
                _make_cold(peer, files)
            if files:
                shares.append(page_cache.resident_share(files))
            seconds.append(peer.seconds(batch))
        return Timed(
            seconds=seconds,
            resident_share=(max if turn.is_cold else min)(shares, default=None),
            wall_s=time.perf_counter() - started,
            given_bytes=peer.given_bytes,
            notes=list(peer.notes),
        )

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()

    def _opened(self) -> Peer:
        assert self._peer is not None
        return self._peer

    def _batch(self, rows: int, number: int) -> pa.RecordBatch:
        return stream_batch(StreamConfig(keys=self._zipf, batch_rows=rows, batches=1), self._keys, number)


def serve(connection: Connection, name: str, setting: Setting, zipf: ZipfConfig, log: Path) -> None:
    """The process: (method, arguments) come in, ("done", result) or ("failed", why) go out, until `close` is done."""
    _write_to(log)
    for variable in _THREAD_VARIABLES:
        os.environ[variable] = str(setting.threads)
    pa.set_cpu_count(setting.threads)
    worker = Worker(name, setting, zipf)
    for method, arguments in _requests(connection):
        try:
            answer: tuple[str, Any] = "done", getattr(worker, method)(*arguments)
        except SemistreamError as error:
            answer = "failed", error.message
        except BaseException as error:  # noqa: BLE001  (whatever a library raises is this contestant's result)
            answer = "failed", f"{type(error).__name__}: {str(error).strip()[:400]}"
        connection.send(answer)
        if method == "close":
            return
    worker.close()  # nobody is there any more, and a server must not outlive us


def _make_cold(peer: Peer, files: list[Path]) -> None:
    """Where several processes have the files mapped, one of them may be missed: then once more."""
    for _ in range(_COLD_ATTEMPTS):
        peer.let_go()
        page_cache.drop(files)
        if page_cache.resident_share(files) <= COLD_SHARE_MAX:
            return


def _requests(connection: Connection) -> Iterator[tuple[str, tuple[Any, ...]]]:
    with contextlib.suppress(EOFError):  # the parent is gone
        while True:
            yield connection.recv()


def _write_to(log: Path) -> None:
    """What the libraries print goes there, not between our lines."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
