"""`semistream figures` through the installed command."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_line import assert_explained, semistream

ROOT = Path(__file__).parents[2]


def test_a_figure_its_page_and_its_summary(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the figures are drawn by matplotlib, of the extra 'figures'")
    wanted = ("--size", "tiny", "--only", "hybridjoin/fig08", "--out", tmp_path, "--processes", "1")
    ran = semistream("figures", *wanted, "--summary", tmp_path / "kept", cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert "1 runs made, 0 kept" in ran.stdout
    assert (tmp_path / "index.html").exists()
    kept = (tmp_path / "kept" / "README.md").read_text()
    assert "semistream figures --size tiny" in kept
    assert "80 % of the sales" in kept
    assert (tmp_path / "kept" / "hybridjoin" / "fig08.png").exists()
    again = semistream("figures", *wanted, cwd=ROOT)
    assert "0 runs made, 1 kept" in again.stdout


def test_errors_in_words(tmp_path: Path) -> None:
    assert_explained(semistream("figures", "--only", "skewed/fig99", cwd=ROOT), "fig99", "skewed/fig05a")
    assert_explained(semistream("figures", "--experiments", tmp_path), "no figures")
    assert_explained(semistream("figures", "--processes", "0"), "--processes")
