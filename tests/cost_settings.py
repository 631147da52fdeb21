"""A setting the tests of the cost models share: two million rows of the papers' sizes."""

from __future__ import annotations

from typing import Any

from semistream.cost_model.profiles import HDD2012
from semistream.cost_model.setting import Setting

MIB = 1 << 20
ROWS = 2_000_000


def setting(exponent: float = 1.0, *, rows: int = ROWS, **more: Any) -> Setting:
    return Setting.zipf(R_t=rows, exponent=exponent, device=more.pop("device", HDD2012), **more)
