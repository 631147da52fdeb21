"""The examples in docstrings say what Python says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import semistream

OPTIONAL = ("adbc_driver_postgresql", "adbc_driver_sqlite", "duckdb", "lance", "polars", "rocksdict")


def modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(semistream.__path__, "semistream.")]
    return ["semistream", *found]


@pytest.mark.parametrize("name", modules())
def test_the_examples_of(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed; it comes with the extra `peers`")
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


def test_examples_are_found() -> None:
    from semistream.core import budget

    assert doctest.testmod(budget).attempted >= 4
