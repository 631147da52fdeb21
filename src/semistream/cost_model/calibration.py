"""Measures this machine's constants in a few seconds, and remembers them."""

# The papers' symbols keep their case.

from __future__ import annotations

import json
import mmap
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from semistream.cost_model import _calibration_kernels as kernels
from semistream.cost_model.profiles import DeviceProfile
from semistream.errors import ConfigError

FORMAT_VERSION = 1
Report = Callable[[str, float], None]
"""Called with what is measured now and the share of the work done, 0 to 1."""

_FILE_BYTES = 96 << 20
_SEQUENTIAL_READ_BYTES = 4 << 20
_PAGE_BYTES = 8192
_RANDOM_READS = 300
_IN_FLIGHT_MAX = 256.0
_KEYS = 1 << 21
_ROW_BYTES = 128
_STREAM_ROW_BYTES = 24
# Nothing that holds a disk and a processor lies outside; a file that says so was damaged or edited.
_RANGES = {
    "positioning_s": (1e-8, 1.0),
    "request_s": (1e-8, 1.0),
    "sequential_bytes_per_s": (1e5, 1e12),
    "in_flight": (1.0, 1e4),
    "c_step": (1e-8, 1.0),
}
_ROW_RANGE = (1e-10, 1e-3)


def calibrated(
    *, directory: Path | None = None, fresh: bool = False, report: Report | None = None
) -> DeviceProfile:
    """The profile `measured`: from the cache if it has a sound one of this machine, else measured and kept.

    Parameters
    ----------
    directory: where the temporary file is written that the disk is measured with; it should be on the disk
        that will hold the master table. One profile is kept for each file system. By default the cache's.
    fresh: measure again. report: called as the calibration proceeds.
    """
    directory = cache_directory() if directory is None else directory
    path = cache_directory() / f"device-{_device_of(directory)}.json"
    known = None if fresh else load(path)
    if known is not None:
        return known
    profile = measure(directory, report=report)
    save(profile, path)
    return profile


def measure(directory: Path, *, report: Report | None = None) -> DeviceProfile:
    """Times small kernels and reads of a temporary file; writes about 96 MiB, and removes them."""
    say = report or (lambda _text, _share: None)
    rows = _row_costs(say)
    say("reading a file", 0.5)
    disk, cold = _disk_costs(directory, say)
    say("done", 1.0)
    return DeviceProfile(
        name="measured",
        source=f"calibration of {platform.node() or 'this machine'} ({'cold' if cold else 'warm'} reads)",
        **disk,
        **rows,
    )


# ---- what is kept --------------------------------------------------------------------------------


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/semistream, or ~/.cache/semistream."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "semistream"


def save(profile: DeviceProfile, path: Path) -> None:
    """Written under another name and renamed, so that a reader never sees half of it."""
    content = json.dumps(
        {"format": FORMAT_VERSION, "node": platform.node(), "profile": asdict(profile)}, indent=1
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        # A cache that cannot be written costs a calibration next time, nothing else.
        return


def load(path: Path) -> DeviceProfile | None:
    """The profile kept there, or None if there is none, or it is damaged, of another machine or release."""
    try:
        found: Any = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    if (
        not isinstance(found, dict)
        or found.get("format") != FORMAT_VERSION
        or found.get("node") != platform.node()
    ):
        return None
    values = found.get("profile")
    if not isinstance(values, dict) or set(values) != {field.name for field in fields(DeviceProfile)}:
        return None
    for name, value in values.items():
        if name in ("name", "source"):
            if not isinstance(value, str) or len(value) > 200:
                return None
            continue
        low, high = _RANGES.get(name, _ROW_RANGE)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            return None
    return DeviceProfile(**values) if values["name"] == "measured" else None


def _device_of(directory: Path) -> str:
    """Names the file system a directory is on, or would be, were it made."""
    there = directory.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    return f"{there.stat().st_dev:x}"


# ---- the processor -------------------------------------------------------------------------------


def _row_costs(say: Report) -> dict[str, float]:
    """Tables of 16 MB and more, larger than most caches, and keys in no order: as in a join of some size."""
    say("compiling kernels", 0.0)
    random = np.random.default_rng(1)
    _time_rows(random, keys=1024)
    say("timing rows", 0.2)
    return _time_rows(random, keys=_KEYS)


def _time_rows(random: np.random.Generator, *, keys: int) -> dict[str, float]:
    # Filled, not only allocated: the system's first hand-out of a page is not a cost of the row.
    slots = np.full(2 * keys, 0, dtype=np.int64)
    links = np.full((2 * keys, 2), 0, dtype=np.int64)
    shift = 64 - (2 * keys).bit_length() + 1
    values = random.permutation(keys) + 1
    rows = np.full((keys, _ROW_BYTES), 1, dtype=np.uint8)
    stream = np.full((keys, _STREAM_ROW_BYTES), 1, dtype=np.uint8)
    output = np.full((keys, _ROW_BYTES + _STREAM_ROW_BYTES), 1, dtype=np.uint8)
    anywhere, in_order = random.permutation(keys), np.arange(keys)

    def each(kernel: Callable[..., object], *arguments: object) -> float:
        return max(_seconds(kernel, *arguments) / keys, _ROW_RANGE[0])

    append_s = each(kernels.insert, slots, links, values, shift)
    values = random.permutation(values)
    lookup_s = each(kernels.probe, slots, values, shift)
    remove_s = each(kernels.remove, slots, links, random.permutation(values), shift)
    out_s = each(kernels.copy_rows, rows, anywhere, output)
    in_s = each(kernels.copy_rows, stream, in_order, output)
    few = values[:1]
    turns = 200
    started = time.perf_counter()
    for _ in range(turns):
        # About what a turn of the loop does besides its rows: some calls, some small arrays.
        for _ in range(8):
            kernels.nothing(few)
            np.flatnonzero(few).size  # noqa: B018
    step_s = (time.perf_counter() - started) / turns
    return {
        "c_H": lookup_s,
        "c_O": out_s,
        "c_E": remove_s,
        "c_S": in_s,
        "c_A": append_s,
        "c_B": append_s + out_s,
        "c_step": step_s,
    }


def _seconds(call: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started


# ---- the disk ------------------------------------------------------------------------------------


def _disk_costs(directory: Path, say: Report) -> tuple[dict[str, float], bool]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, prefix="semistream-calibration-") as file:
            chunk = np.random.default_rng(2).bytes(_SEQUENTIAL_READ_BYTES)
            for _ in range(_FILE_BYTES // len(chunk)):
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            say("reading a file", 0.7)
            return _time_reads(Path(file.name))
    except OSError as error:
        raise ConfigError(
            f"cannot calibrate on {directory}: {error.strerror or error}.",
            hint="pass a directory with 100 MiB of free space, or use a named device profile.",
        ) from None


def _time_reads(path: Path) -> tuple[dict[str, float], bool]:
    """Cold reads where the system has O_DIRECT or forgets pages when asked; whether it did, too."""
    places = np.random.default_rng(3).permutation(_FILE_BYTES // _PAGE_BYTES) * _PAGE_BYTES
    single, many = places[:_RANDOM_READS].tolist(), places[_RANDOM_READS : 6 * _RANDOM_READS].tolist()
    descriptor, cold = _open_cold(path)
    try:
        # Whatever else the machine does only makes a read slower, so the faster of two is nearer the truth.
        sequential_s = min(_read_through(descriptor) for _ in range(2))
        _forget(descriptor)
        single_s = _read_pages(descriptor, single) / len(single)
    finally:
        os.close(descriptor)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        _forget(descriptor)
        together_s = _read_together(descriptor, many) / len(many)
        # Pages that the system has in memory now show what asking costs.
        request_s = _read_pages(descriptor, many) / len(many)
    finally:
        os.close(descriptor)
    bytes_per_s = _FILE_BYTES / sequential_s
    positioning_s = max(single_s - request_s - _PAGE_BYTES / bytes_per_s, 1e-7)
    at_once_s = max(together_s - request_s - _PAGE_BYTES / bytes_per_s, positioning_s / _IN_FLIGHT_MAX)
    return {
        "positioning_s": positioning_s,
        "request_s": max(request_s, 1e-7),
        "sequential_bytes_per_s": bytes_per_s,
        "in_flight": max(1.0, positioning_s / at_once_s),
    }, cold


def _open_cold(path: Path) -> tuple[int, bool]:
    direct = getattr(os, "O_DIRECT", 0)
    if direct:
        try:
            descriptor = os.open(path, os.O_RDONLY | direct)
            os.preadv(descriptor, [_aligned(_PAGE_BYTES)], 0)
            return descriptor, True
        except OSError:
            pass
    descriptor = os.open(path, os.O_RDONLY)
    _forget(descriptor)
    return descriptor, hasattr(os, "posix_fadvise")


def _forget(descriptor: int) -> None:
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _aligned(size_bytes: int) -> memoryview:
    """O_DIRECT reads into memory that begins at a multiple of the sector's size; a mapping does."""
    return memoryview(mmap.mmap(-1, size_bytes))


def _read_through(descriptor: int) -> float:
    buffer = _aligned(_SEQUENTIAL_READ_BYTES)
    started = time.perf_counter()
    for offset in range(0, _FILE_BYTES, _SEQUENTIAL_READ_BYTES):
        os.preadv(descriptor, [buffer], offset)
    return time.perf_counter() - started


def _read_pages(descriptor: int, places: list[int]) -> float:
    buffer = _aligned(_PAGE_BYTES)
    started = time.perf_counter()
    for place in places:
        os.preadv(descriptor, [buffer], place)
    return time.perf_counter() - started


def _read_together(descriptor: int, places: list[int]) -> float:
    """The system is told of all pages before the first is read, as a planned access does."""
    started = time.perf_counter()
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        for place in places:
            os.posix_fadvise(descriptor, place, _PAGE_BYTES, os.POSIX_FADV_WILLNEED)
    _read_pages(descriptor, places)
    return time.perf_counter() - started
