"""The checks of arguments, once, where they come in: behind the package's functions every value has its type.

Whether names exist, or numbers are in range, is said by the part that knows; see `core.shape`, `builder`.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

from semistream.errors import ConfigError

_NAMES_HINT = 'write a name, or a list of names, e.g. "custkey" or ["country", "custkey"].'


def names(value: Any, *, name: str) -> list[str]:
    """A column name, or several of them in a list or any other collection, as a list."""
    if isinstance(value, str):
        return [str(value)]
    if isinstance(value, bytes | Mapping) or not isinstance(value, Collection):
        raise ConfigError(f"{name}={value!r} names no columns.", hint=_NAMES_HINT)
    found = list(value)
    for each in found:
        if not isinstance(each, str):
            raise ConfigError(f"{name}={value!r} holds {each!r}, which is no column name.", hint=_NAMES_HINT)
    return [str(each) for each in found]


def optional_names(value: Any, *, name: str) -> list[str] | None:
    return None if value is None else names(value, name=name)


def join_columns(on: Any) -> list[str] | dict[str, str]:
    """`on=`: names, or a mapping from the stream's columns to the table's."""
    if not isinstance(on, Mapping):
        return names(on, name="on")
    for pair in on.items():
        if not all(isinstance(each, str) for each in pair):
            raise ConfigError(
                f"on={dict(on)!r} maps {pair[0]!r} to {pair[1]!r}; both have to be column names.",
                hint='map stream columns to the table\'s key columns, e.g. on={"customer_id": "custkey"}.',
            )
    return {str(stream): str(master) for stream, master in on.items()}


def text(value: Any, *, name: str, example: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name}={value!r} is not text.", hint=f'write it like {name}="{example}".')
    return str(value)


def optional_text(value: Any, *, name: str, example: str) -> str | None:
    return None if value is None else text(value, name=name, example=example)


def optional_whole_number(value: Any, *, name: str) -> int | None:
    """An integer of any kind (NumPy's, too), but not a truth value and not a float that happens to be whole."""
    if value is None:
        return None
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ConfigError(
        f"{name}={value!r} is not a whole number.", hint=f"write it like {name}=4, or leave it out."
    )


def flag(value: Any, *, name: str) -> bool:
    """Not just anything that Python takes for true: overwrite="no" would overwrite."""
    if not isinstance(value, bool):
        raise ConfigError(
            f"{name}={value!r} is neither True nor False.", hint=f"write {name}=True or {name}=False."
        )
    return value


def frame(value: Any, *, name: str) -> Any:
    """A Spark DataFrame, told by what only those have: this module must not load PySpark."""
    if not (hasattr(value, "isStreaming") and hasattr(value, "sparkSession")):
        raise ConfigError(
            f"{name} is a {type(value).__name__}, not a Spark DataFrame.",
            hint="read it with spark.read or spark.readStream, or make one with spark.createDataFrame.",
        )
    return value


def query(value: Any) -> Any:
    """A streaming query, told likewise."""
    if not hasattr(value, "recentProgress"):
        raise ConfigError(
            f"query is a {type(value).__name__}, not a streaming query.",
            hint="pass what writeStream...start() returned.",
        )
    return value
