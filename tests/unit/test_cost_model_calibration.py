"""The calibration measures something plausible, keeps it, and believes only what is sound."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from semistream.cost_model import _calibration_kernels as kernels
from semistream.cost_model import calibration
from semistream.cost_model.profiles import NVME, DeviceProfile
from semistream.errors import ConfigError

MEASURED = replace(NVME, name="measured", source="a test")


@pytest.fixture(autouse=True)
def small_and_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(calibration, "_KEYS", 1 << 12)
    monkeypatch.setattr(calibration, "_FILE_BYTES", 16 << 20)
    monkeypatch.setattr(calibration, "_RANDOM_READS", 50)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_measured_once_and_then_remembered(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    first = calibration.calibrated(directory=tmp_path, report=lambda what, share: told.append((what, share)))
    assert first.name == "measured"
    assert 1e6 < first.sequential_bytes_per_s < 1e12
    assert 0 < first.c_H < 1e-4
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert told[-1][1] == 1.0
    told.clear()
    again = calibration.calibrated(directory=tmp_path, report=lambda what, share: told.append((what, share)))
    assert (again, told) == (first, [])
    calibration.calibrated(
        directory=tmp_path, fresh=True, report=lambda what, share: told.append((what, share))
    )
    assert told
    assert not list(tmp_path.glob("semistream-calibration-*")), "the temporary file is gone"


def kept(path: Path, **changes: object) -> Path:
    calibration.save(MEASURED, path)
    content = json.loads(path.read_text())
    for name, value in changes.items():
        where = content if name in ("format", "node", "profile") else content["profile"]
        where[name] = value
    path.write_text(json.dumps(content))
    return path


def test_what_was_saved_is_read_back(tmp_path: Path) -> None:
    assert calibration.load(kept(tmp_path / "a.json")) == MEASURED


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"node": "elsewhere"},
        {"profile": [1]},
        {"profile": {"name": "measured"}},
        {"name": "hdd2012"},
        {"c_H": -1.0},
        {"c_H": "fast"},
        {"c_H": True},
        {"c_H": float("nan")},
        {"positioning_s": 1e9},
        {"in_flight": 0.5},
        {"source": 5},
        {"more": 1.0},
    ],
    ids=str,
)
def test_a_profile_that_is_not_sound_is_measured_again(changes: dict[str, object], tmp_path: Path) -> None:
    assert calibration.load(kept(tmp_path / "a.json", **changes)) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '"text"', "\x00"])
def test_damage_is_no_profile(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    assert calibration.load(path) is None
    assert calibration.load(tmp_path / "missing") is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    calibration.save(MEASURED, tmp_path / "file" / "a.json")


def test_a_disk_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot calibrate"):
        calibration.measure(tmp_path / "file")


def test_every_constant_has_a_range() -> None:
    numbers = {name for name, value in asdict(MEASURED).items() if isinstance(value, float)}
    assert {name for name in numbers if not name.startswith("c_")} <= set(calibration._RANGES)
    assert isinstance(DeviceProfile(**asdict(MEASURED)), DeviceProfile)


def test_the_timed_kernels_do_what_they_say() -> None:
    random = np.random.default_rng(0)
    keys, size = random.permutation(900) + 1, 1024
    slots, links = np.zeros(size, dtype=np.int64), np.zeros((size, 2), dtype=np.int64)
    shift = 64 - 10
    kernels.insert(slots, links, keys, shift)
    assert sorted(slots[slots > 0]) == sorted(keys)
    assert kernels.probe(slots, np.arange(1, 2001), shift) == 900
    kernels.remove(slots, links, keys[:400], shift)
    assert sorted(slots[slots > 0]) == sorted(keys[400:])
    assert kernels.probe(slots, keys, shift) == 500
    rows, target = random.integers(0, 255, (5, 8), dtype=np.uint8), np.zeros((3, 8), dtype=np.uint8)
    kernels.copy_rows(rows, np.array([4, 0, 4]), target)
    assert (target == rows[[4, 0, 4]]).all()
