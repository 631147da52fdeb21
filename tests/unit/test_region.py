"""Regions: one process at a time, memory that outlives it, and no place that others could tamper with."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from semistream.front_stage.region import DIRECTORY_VARIABLE, Owner, Region, boot_id, remove_all

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


def test_no_room_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="no space"):
        Region.shared(tmp_path / "f", SIZE)
    assert not (tmp_path / "f").exists()
    monkeypatch.undo()
    region = Region.shared(tmp_path / "f", SIZE)  # the lock was given back
    assert region is not None
    assert region.fresh


def test_links_and_directories_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    for name in ("link", ".", "missing/f"):
        with pytest.raises(OSError):  # noqa: PT011  (which one is the system's to say)
            Region.shared(tmp_path / name, SIZE)
    assert (tmp_path / "secret").read_bytes() == b"secret"


def owner(
    query: str = "query", *, run: str = "run", join: str = "join", setup: str = "setup", task: int = 0
) -> Owner:
    return Owner(query_id=query, run_id=run, join=join, setup=setup, task=task)


def of_query(query: str) -> Region:
    region = Region.of_query(owner(query), SIZE)
    assert region is not None
    return region


def use(*owners: Owner) -> None:
    """Each opens its front stage and closes it, one after the other, as the tasks of a micro-batch do."""
    for each in owners:
        region = Region.of_query(each, SIZE)
        assert region is not None
        region.close()
        time.sleep(0.02)  # files are timed by the system's coarse clock


def kept(root: Path) -> set[str]:
    return {file.name for file in root.rglob("*.front")}


def is_kept(region: Region) -> bool:
    """In a file, which the next process finds; a private region has none."""
    return region.file_id is not None


def test_a_querys_region_is_found_again_in_a_place_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    first = of_query("query")
    assert is_kept(first)
    assert Region.of_query(owner("query"), SIZE) is None  # in use
    first.bytes[3] = 5
    first.close()
    assert of_query("query").bytes[3] == 5
    assert not of_query("other").bytes.any()
    base = tmp_path / f"semistream-{os.getuid()}"
    for directory in (base, base / "query"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o701])
def test_a_directory_open_to_others_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    base = tmp_path / f"semistream-{os.getuid()}"
    base.mkdir()
    base.chmod(mode)
    assert not is_kept(of_query("query"))
    assert not list(base.iterdir())


def test_a_planted_link_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"semistream-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    assert not is_kept(of_query("query"))


def test_where_memory_backed_storage_is_too_small_the_next_place_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's /dev/shm often has 64 MB."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    monkeypatch.setattr("semistream.front_stage.region._roots", lambda: [small, large])
    reserve = os.posix_fallocate

    def fallocate(descriptor: int, offset: int, size: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(small)):
            raise OSError(errno.ENOSPC, "no space")
        reserve(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    assert is_kept(of_query("query"))
    assert kept(large) == {owner("query").file_name}
    assert not kept(small)


def test_what_nobody_used_for_long_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    held, recent = of_query("held"), of_query("recent")
    of_query("old").close()
    recent.close()
    base = tmp_path / f"semistream-{os.getuid()}"
    long_ago = time.time() - 2 * 3600
    for query in ("old", "held"):
        os.utime(base / query / owner(query).file_name, (long_ago, long_ago))
        os.utime(base / query, (long_ago, long_ago))
    of_query("new").close()
    assert sorted(directory.name for directory in base.iterdir()) == ["held", "new", "recent"]
    held.close()


def test_a_restart_with_another_setup_removes_what_the_join_kept_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tasks, other memory or another table version: the old files do not lie beside the new ones."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    before = [owner(run="first", setup="4 tasks", task=task) for task in range(4)]
    others = [owner(run="first", join="another join", setup="4 tasks"), owner("another query", run="x")]
    use(*before, *others)
    assert len(kept(tmp_path)) == 6
    now = [owner(run="second", setup="2 tasks", task=task) for task in range(2)]
    use(now[0])
    assert kept(tmp_path) == {each.file_name for each in (now[0], *others)}
    use(*now, *others)
    assert kept(tmp_path) == {each.file_name for each in (*now, *others)}


def test_a_restart_with_the_same_setup_keeps_all_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    use(*(owner(run="first", task=task) for task in range(3)))
    use(owner(run="second", task=1))
    assert kept(tmp_path) == {owner(task=task).file_name for task in range(3)}


def test_a_join_that_a_query_holds_twice_does_not_remove_its_other_self(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    small, large = owner(setup="8 MiB"), owner(setup="16 MiB")
    for _ in range(3):  # micro-batches
        use(small, large)
        assert kept(tmp_path) == {small.file_name, large.file_name}


def test_a_front_stage_in_use_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    late = owner(run="first", setup="old")  # a task that outlives its run
    held = Region.of_query(late, SIZE)
    assert held is not None
    time.sleep(0.02)
    use(owner(run="second", setup="new"))
    assert len(kept(tmp_path)) == 2
    held.close()
    use(owner(run="second", setup="new"))
    assert kept(tmp_path) == {owner(setup="new").file_name}


def test_what_a_place_kept_is_removed_though_another_place_is_used_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    second.mkdir()
    monkeypatch.setattr("semistream.front_stage.region._roots", lambda: [first, second])
    use(owner(run="first", setup="old"))
    assert len(kept(second)) == 1
    first.mkdir()
    use(owner(run="second", setup="new"))
    assert (len(kept(first)), len(kept(second))) == (1, 0)


def test_remove_all_leaves_what_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    assert remove_all() == (0, 0)
    use(owner("a", task=0), owner("a", task=1), owner("b"))
    held = of_query("c")
    assert remove_all() == (3, 3 * SIZE)
    assert kept(tmp_path) == {owner("c").file_name}
    held.close()
    assert remove_all() == (1, SIZE)
    assert not list((tmp_path / f"semistream-{os.getuid()}").iterdir())


def test_a_file_removed_while_it_is_opened_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, path = fcntl.flock, tmp_path / "f"

    def removed_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    region = Region.shared(path, SIZE)
    assert region is not None
    region.bytes[5] = 1
    region.close()
    assert path.read_bytes()[5] == 1


def test_without_any_place_it_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "nowhere"))
    assert not is_kept(of_query("query"))


def test_the_boot_id_is_steady() -> None:
    assert boot_id() == boot_id()
