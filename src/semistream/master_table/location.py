"""Where a store is: the one place that turns what a user calls a path into a path of this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from semistream.errors import ConfigError

# Two letters at least. `Path` makes one slash of several, so one has to be enough.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_LOCAL_HOSTS = ("", "localhost")


def local_path(path: object, *, name: str = "path") -> Path:
    """The absolute path that `path` names; ConfigError if it is none, or of a storage that is not a file system.

    >>> local_path("file:///data/my%20table")
    PosixPath('/data/my table')
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(
            f"{name}={path!r} is not a path.",
            hint='write it as text or as a Path, e.g. "warehouse/customers".',
        )
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(
            f"{name}={path!r} is not a path.", hint='write it as text, e.g. "warehouse/customers".'
        )
    scheme = _SCHEME.match(text)
    if scheme is None:
        return Path(text).absolute()
    if scheme[1].lower() != "file":
        raise ConfigError(
            f"{name}={text!r} is in a storage of the kind '{scheme[1]}'; only paths of a file system can be used.",
            hint="mount the storage under the same directory on every worker, and name that directory.",
        )
    return _path_of_url(text[scheme.end() :], text, name)


def _path_of_url(rest: str, text: str, name: str) -> Path:
    """file:/x, file:///x and file://localhost/x are /x."""
    if rest.startswith("//"):
        host, slash, below = rest[2:].partition("/")
        if host not in _LOCAL_HOSTS:
            raise ConfigError(
                f"{name}={text!r} names a file of the host '{host}'.",
                hint="mount it under the same directory on every worker, and name that directory.",
            )
        rest = slash + below
    if not rest.strip("/"):
        raise ConfigError(
            f"{name}={text!r} names no directory.", hint="write it like file:///data/customers."
        )
    return Path(unquote(rest))
