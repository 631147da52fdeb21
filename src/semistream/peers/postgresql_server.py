"""A PostgreSQL server of the benchmark's own, reached by a socket file of this machine alone."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semistream.peers.contract import CannotRunError

_START_S_MAX = 60.0
_NOT_ROOT = ("postgres", "nobody")


class Server:
    """Runs as this user, or, since PostgreSQL refuses to run as root, as one without rights."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._programs = _programs()
        self._user = _unprivileged_user() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """A new cluster, whose superuser is `postgres`. What it holds can be made again, so nothing is synced."""
        self.data.mkdir(mode=0o700)
        if self._user is not None:
            os.chown(self.data, self._user.pw_uid, self._user.pw_gid)
        self._run(
            "initdb", "-D", str(self.data), "--username=postgres", "--auth=trust", "--encoding=UTF8",
            "--locale=C", "--no-sync",
        )  # fmt: skip

    def start(self, settings: Mapping[str, str | float]) -> None:
        self._sockets = Path(tempfile.mkdtemp(prefix="semistream-pg-"))  # its path has to be short
        if self._user is not None:
            os.chown(self._sockets, self._user.pw_uid, self._user.pw_gid)
        fixed: dict[str, str | float] = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._sockets),
        }
        options = [
            text for name, value in (fixed | dict(settings)).items() for text in ("-c", f"{name}={value}")
        ]
        command = [str(self._programs / "postgres"), "-D", str(self.data), *options]
        self._process = subprocess.Popen(command, cwd=self.data, **self._as_user())
        give_up = time.monotonic() + _START_S_MAX
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise CannotRunError(
                    f"the PostgreSQL server in {self.data} does not start (status {self._process.poll()}).",
                    hint="its messages are in the log of this contestant.",
                )
            time.sleep(0.1)

    @property
    def uri(self) -> str:
        return f"postgresql:///postgres?host={self._sockets}&user=postgres"

    def stop(self) -> None:
        """The fast shutdown: connections are cut, the data is left clean."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _is_ready(self) -> bool:
        ask = [str(self._programs / "pg_isready"), "--quiet", "--host", str(self._sockets)]
        return subprocess.run(ask, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        ran = subprocess.run(
            command, cwd=self.data, capture_output=True, text=True, check=False, **self._as_user()
        )
        if ran.returncode:
            raise CannotRunError(
                f"{program} failed: {ran.stderr.strip()[-300:]}",
                hint="as root, the directory must be reachable for the user postgres or nobody.",
            )

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _programs() -> Path:
    """Where the server's programs are: on the PATH, or where Debian and its like put them, the newest first."""
    on_path = shutil.which("postgres")
    places = [Path(on_path).resolve().parent] if on_path else []
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    places += sorted(debian, key=lambda path: int(path.parent.name.partition(".")[0]), reverse=True)
    for place in places:
        if all((place / name).exists() for name in ("initdb", "postgres", "pg_isready")):
            return place
    raise CannotRunError(
        "there is no PostgreSQL server on this machine.",
        hint="install PostgreSQL (no service has to run), or put its programs on the PATH.",
    )


def _unprivileged_user() -> pwd.struct_passwd:
    for name in _NOT_ROOT:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise CannotRunError(
        "PostgreSQL does not run as root, and there is no user postgres or nobody.",
        hint="run the benchmark as another user.",
    )
