"""Runs the tasks of figures over several processes, and remembers every result.

    figures --tasks--> what has no result yet --processes--> results/<hash of the task>.json --> rows of the figures

A result file is written when its task is done, so that whoever is interrupted goes on where he was. It is named by its
task's config, and says which code made it: another config is another file, and other code makes it anew.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import semistream
from semistream.errors import SemistreamError
from semistream.experiments.figure import Figure, Results, SizeName
from semistream.experiments.tasks import Result, Task, config_of, key_of

_WATCH_S = 2.0
# What a result follows from, beside its task's class.
_PACKAGES = (
    "core", "cost_model", "master_table", "workloads", "waiting_room", "front_stage", "access_path", "shedding",
    "joins.py", "memory_split.py", "simulation", "experiments/scenario.py", "experiments/variant.py",
    "experiments/keys.py", "experiments/tasks.py",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Progress:
    """left_s: an estimate from what was done so far; None before anything is."""

    done: int
    total: int
    note: str
    left_s: float | None


@dataclass(frozen=True, kw_only=True)
class Ran:
    """Results of all tasks, and how they came about."""

    results: Results
    made: int
    kept: int
    other_code: int
    processor_s: float


@dataclass(frozen=True, kw_only=True)
class Done:
    """`seconds` that passed meanwhile, on a machine that may have had other things to do, and those of the processor."""

    result: Result
    seconds: float
    processor_s: float


class ResultStore:
    """JSON files, one for each task."""

    def __init__(self, directory: Path, *, any_code: bool = False) -> None:
        self._directory, self._any_code = directory, any_code

    def get(self, task: Task) -> dict[str, Any] | None:
        """What `put` wrote, unless other code made it."""
        path = self._path(task)
        if not path.exists():
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except ValueError:
            return None  # not written to its end
        is_ours = found["code"] == code_of(task)
        return found if is_ours or self._any_code else None

    def put(self, task: Task, done: Done) -> dict[str, Any]:
        path = self._path(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = {"task": config_of(task), "code": code_of(task), **asdict(done)}
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(written))
        draft.replace(path)
        return written

    def _path(self, task: Task) -> Path:
        return self._directory / f"{key_of(task)}.json"


def run_figures(
    figures: Sequence[Figure],
    size: SizeName,
    store: ResultStore,
    *,
    processes: int,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Ran:
    """Runs what has no result yet, the longest first. SemistreamError for a task that fails, after those under way."""
    tasks = unique(task for figure in figures for task in figure.tasks(size))
    found = {key: store.get(task) for key, task in tasks.items()}
    left = sorted(
        (key for key, result in found.items() if result is None), key=lambda key: -tasks[key].effort
    )
    kept, meter = len(tasks) - len(left), _Meter([tasks[key].effort for key in left], processes)
    report(Progress(done=kept, total=len(tasks), note="", left_s=None))
    to_do = {key: tasks[key] for key in left}
    for number, (key, done) in enumerate(_performed(to_do, processes), 1):
        found[key] = store.put(tasks[key], done)
        meter.add(tasks[key].effort, done.seconds)
        report(Progress(done=kept + number, total=len(tasks), note=tasks[key].title, left_s=meter.left_s))
    held = {key: each for key, each in found.items() if each is not None}
    return Ran(
        results=Results(by_key={key: each["result"] for key, each in held.items()}),
        made=len(left),
        kept=kept,
        other_code=sum(each["code"] != code_of(tasks[key]) for key, each in held.items()),
        processor_s=sum(each["processor_s"] for each in held.values()),
    )


def unique(tasks: Iterable[Task]) -> dict[str, Task]:
    return {key_of(task): task for task in tasks}


def code_of(task: Task) -> str:
    """A fingerprint of what the result follows from."""
    return hashlib.sha256((_engine() + inspect.getsource(type(task))).encode()).hexdigest()[:16]


@lru_cache(maxsize=1)
def _engine() -> str:
    root = Path(semistream.__file__).parent
    total = hashlib.sha256()
    for name in _PACKAGES:
        path = root / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            total.update(file.read_bytes())
    return total.hexdigest()


class _Meter:
    def __init__(self, efforts: list[float], processes: int) -> None:
        self._left, self._done, self._seconds, self._processes = sum(efforts), 0.0, 0.0, processes

    def add(self, effort: float, seconds: float) -> None:
        self._left -= effort
        self._done += effort
        self._seconds += seconds

    @property
    def left_s(self) -> float | None:
        return self._left / self._done * self._seconds / self._processes if self._done else None


def _performed(tasks: dict[str, Task], processes: int) -> Iterable[tuple[str, Done]]:
    if processes == 1 or len(tasks) == 1:
        for key, task in tasks.items():
            yield key, _timed(task)
        return
    if not tasks:
        return
    others = set(active_children())
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_serve, initargs=(os.getpid(),)
    )
    try:
        futures: dict[Future[Done], str] = {pool.submit(_timed, task): key for key, task in tasks.items()}
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                yield futures[future], future.result()
    except BaseException:
        # Nobody waits for the end of a task whose result is not wanted any more.
        for worker in set(active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _timed(task: Task) -> Done:
    started_s, busy_s = time.perf_counter(), time.process_time()
    try:
        result = task.perform()
    except SemistreamError as error:
        raise SemistreamError(f"{task.title}: {error.message}", hint=error.hint) from error
    return Done(
        result=result,
        seconds=time.perf_counter() - started_s,
        processor_s=time.process_time() - busy_s,
    )


def _serve(parent: int) -> None:
    """An interruption is the parent's to handle; and whoever has no parent any more has nobody to work for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
