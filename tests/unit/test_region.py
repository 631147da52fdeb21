"""Regions: one process at a time, memory that outlives it, and no place that others could tamper with."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from semistream.front_stage.region import DIRECTORY_VARIABLE, Region, boot_id, query_directory

SIZE = 1 << 16


def test_memory_outlives_the_region(tmp_path: Path) -> None:
    first = Region.shared(tmp_path / "f", SIZE)
    assert first is not None
    assert first.fresh
    first.bytes[7] = 42
    first.close()
    second = Region.shared(tmp_path / "f", SIZE)
    assert second is not None
    assert not second.fresh
    assert second.bytes[7] == 42
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_two_attempts_at_once_one_gets_it(tmp_path: Path) -> None:
    first = Region.shared(tmp_path / "f", SIZE)
    assert first is not None
    assert Region.shared(tmp_path / "f", SIZE) is None
    first.close()
    assert Region.shared(tmp_path / "f", SIZE) is not None


def test_a_killed_process_gives_the_lock_back(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from semistream.front_stage.region import Region\n"
        f"region = Region.shared(Path(sys.argv[1]), {SIZE})\n"
        "region.bytes[0] = 9\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "f")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert Region.shared(tmp_path / "f", SIZE) is None
    finally:
        holder.kill()
        holder.wait()
    region = Region.shared(tmp_path / "f", SIZE)
    assert region is not None
    assert region.bytes[0] == 9


@pytest.mark.parametrize("other_size", [SIZE // 2, SIZE * 2, 1])
def test_another_size_starts_from_zeros(tmp_path: Path, other_size: int) -> None:
    region = Region.shared(tmp_path / "f", other_size)
    assert region is not None
    region.bytes[:] = 255
    region.close()
    again = Region.shared(tmp_path / "f", SIZE)
    assert again is not None
    assert again.fresh
    assert not again.bytes.any()


def test_no_room_means_no_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert Region.shared(tmp_path / "f", SIZE) is None
    monkeypatch.undo()
    region = Region.shared(tmp_path / "f", SIZE)  # the lock was given back
    assert region is not None
    assert region.fresh


def test_links_and_directories_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert Region.shared(tmp_path / "link", SIZE) is None
    assert (tmp_path / "secret").read_bytes() == b"secret"
    assert Region.shared(tmp_path, SIZE) is None
    assert Region.shared(tmp_path / "missing" / "f", SIZE) is None


def test_the_directory_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    directory = query_directory("query")
    assert directory is not None
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    assert query_directory("query") == directory


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_directory_open_to_others_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    base = tmp_path / f"semistream-{os.getuid()}"
    base.mkdir()
    base.chmod(mode)
    assert query_directory("query") is None


def test_a_planted_link_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"semistream-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    assert query_directory("query") is None


def test_what_nobody_used_for_long_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    old, recent = query_directory("old"), query_directory("recent")
    assert old is not None
    assert recent is not None
    (old / "x.front").write_bytes(b"x")
    long_ago = time.time() - 3 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    assert query_directory("new") is not None
    assert not old.exists()
    assert recent.exists()


def test_a_missing_root_means_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "nowhere"))
    assert query_directory("query") is None


def test_the_boot_id_is_steady() -> None:
    assert boot_id() == boot_id()
