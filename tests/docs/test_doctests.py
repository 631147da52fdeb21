"""The examples in docstrings say what Python says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import semistream


def modules() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(semistream.__path__, "semistream.")]
    return ["semistream", *found]


@pytest.mark.parametrize("name", modules())
def test_the_examples_of(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def test_examples_are_found() -> None:
    from semistream.core import budget

    assert doctest.testmod(budget).attempted >= 4
