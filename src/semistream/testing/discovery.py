"""Finding the implementations of a contract."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any


def verbs_of(contract: type) -> set[str]:
    """The names of the methods that a protocol asks for."""
    return {name for name, value in vars(contract).items() if inspect.isfunction(value) and name[0] != "_"}


def implementations(contract: type, package: str) -> list[type]:
    """All classes defined in a module or package (and its modules) that have every verb of the contract."""
    root = importlib.import_module(package)
    names = [package]
    names += [f"{package}.{each.name}" for each in pkgutil.iter_modules(getattr(root, "__path__", []))]
    found: list[type] = []
    for name in names:
        for _, kind in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            if kind.__module__ == name and kind is not contract and _fulfils(kind, contract):
                found.append(kind)
    return found


def _fulfils(kind: type, contract: type) -> bool:
    return all(callable(getattr(kind, verb, None)) for verb in verbs_of(contract))


def make(makers: Mapping[type, Callable[..., Any]], implementation: type, **arguments: Any) -> Any:
    """An instance; AssertionError that says what to do for an implementation without a maker."""
    assert implementation in makers, (
        f"{implementation.__qualname__} has no entry in MAKERS of its contract suite: add one, so that the suite runs"
    )
    return makers[implementation](**arguments)
