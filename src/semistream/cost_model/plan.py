"""Which algorithm to use, with which settings: every model asked about the same setting, and the best one named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semistream.core.budget import format_bytes
from semistream.cost_model.models import MODELS
from semistream.cost_model.prediction import Model, Prediction, check_rate
from semistream.cost_model.setting import Setting
from semistream.errors import BudgetError, ConfigError

PAGE_BYTES_CHOICES = (4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
# The default algorithm follows drift and needs no tuning, so noise must not decide against it.
DEFAULT_ALGORITHM = "adaptive"
_TOLERANCE = 0.03


@dataclass(frozen=True, kw_only=True)
class Option:
    """One algorithm: what it does with the memory given, and what it would need for the rate asked for.

    `prediction` is None where it cannot run in that memory, `needed_bytes` where no rate was asked for;
    infinite where no memory is enough.
    """

    algorithm: str
    needs_index: bool
    minimum_bytes: float
    prediction: Prediction | None
    needed_bytes: float | None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All options, the best first, and the one recommended with the reason; None if none can do it."""

    setting: Setting
    memory_bytes: float | None
    rate: float | None
    options: tuple[Option, ...]
    recommended: str | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are not finite become null."""
        found: dict[str, Any] = {
            "device": self.setting.device.name,
            "rows": self.setting.R_t,
            "row_bytes": self.setting.sizes.v_R,
            "stream_row_bytes": self.setting.sizes.v_S,
            "rows_per_key": self.setting.m,
            "unmatched": self.setting.u,
            "memory_bytes": self.memory_bytes,
            "rate": self.rate,
            "recommended": self.recommended,
            "reason": self.reason,
            "options": [
                {
                    "algorithm": option.algorithm,
                    "needs_index": option.needs_index,
                    "minimum_bytes": option.minimum_bytes,
                    "needed_bytes": option.needed_bytes,
                    "prediction": option.prediction.to_dict() if option.prediction else None,
                }
                for option in self.options
            ],
        }
        cleaned: dict[str, Any] = _finite(found)
        return cleaned


def make_plan(
    setting: Setting,
    *,
    memory_bytes: float | None = None,
    rate: float | None = None,
    page_bytes_choices: Sequence[int] = PAGE_BYTES_CHOICES,
    has_index: bool = True,
) -> Plan:
    """Asks every model for its rate in the memory, or its memory for the rate, or both.

    `page_bytes_choices` has a single element where the table is prepared already. A table that has no index
    leaves only the algorithms that scan it.
    """
    if memory_bytes is None and rate is None:
        raise ConfigError(
            "a plan needs the memory, the stream's rate, or both.",
            hint='pass --memory "1 GiB" or --rate 50000.',
        )
    if rate is not None:
        check_rate(rate)
    if memory_bytes is not None and not (memory_bytes > 0 and math.isfinite(memory_bytes)):
        raise BudgetError(f"{memory_bytes} bytes are no memory.", hint='write it like "64 MiB" or 67108864.')
    fitting = tuple(size for size in page_bytes_choices if size >= setting.sizes.v_R)
    if not fitting:
        raise ConfigError(
            f"rows of {setting.sizes.v_R:,.0f} bytes do not fit a page of {max(page_bytes_choices):,} bytes.",
            hint="choose larger pages, or fewer columns.",
        )
    options = [
        _option(model, setting, memory_bytes, rate, fitting)
        for model in MODELS.values()
        if has_index or not model.NEEDS_INDEX
    ]
    options.sort(key=_merit(memory_bytes, rate))
    recommended, reason = _recommend(options, setting, memory_bytes, rate)
    return Plan(
        setting=setting,
        memory_bytes=memory_bytes,
        rate=rate,
        options=tuple(options),
        recommended=recommended,
        reason=reason,
    )


def _option(
    model: Model, setting: Setting, memory_bytes: float | None, rate: float | None, choices: tuple[int, ...]
) -> Option:
    """The best page size for what is asked; one that only scans R does not care."""
    if not model.NEEDS_INDEX:
        choices = (min(choices, key=lambda size: abs(size - setting.page_bytes)),)
    settings = [setting.with_pages(size) for size in choices]
    prediction = None
    if memory_bytes is not None:
        able = [each for each in settings if model.minimum_memory(each) <= memory_bytes]
        prediction = max((model.predict(each, memory_bytes) for each in able), key=_rows_per_s, default=None)
    needed = None
    if rate is not None:
        if prediction is not None:
            settings = [setting.with_pages(prediction.page_bytes)]
        else:
            # Each takes a search of its own, and the best page size is a flat maximum.
            settings = settings[len(settings) > 2 :: 2]
        needed = min(model.memory_for(each, rate) for each in settings)
        if memory_bytes is None and math.isfinite(needed):
            able = [each for each in settings if model.minimum_memory(each) <= needed]
            prediction = max((model.predict(each, needed) for each in able), key=_rows_per_s, default=None)
    return Option(
        algorithm=model.NAME,
        needs_index=model.NEEDS_INDEX,
        minimum_bytes=min(model.minimum_memory(setting.with_pages(size)) for size in choices),
        prediction=prediction,
        needed_bytes=needed,
    )


def _rows_per_s(prediction: Prediction) -> float:
    return prediction.rows_per_s


def _merit(memory_bytes: float | None, rate: float | None) -> Any:
    """By rate where memory is given, else by the memory needed."""
    if memory_bytes is not None:
        return lambda option: -(option.prediction.rows_per_s if option.prediction else 0.0)
    return lambda option: option.needed_bytes if option.needed_bytes is not None else math.inf


def _recommend(
    options: list[Option], setting: Setting, memory_bytes: float | None, rate: float | None
) -> tuple[str | None, str]:
    able = [option for option in options if option.prediction is not None]
    if not able:
        if memory_bytes is None:
            return None, f"no algorithm reaches {rate:,.0f} rows/s on this device, with any memory."
        least = min(options, key=lambda option: option.minimum_bytes)
        return None, (
            f"no algorithm runs in {format_bytes(memory_bytes)}; {least.algorithm} needs least, "
            f"{format_bytes(least.minimum_bytes)}."
        )
    best = _preferred(able, memory_bytes)
    others = [option for option in able if option is not best]
    reason = _what_it_does(best, setting)
    if memory_bytes is not None:
        reason = f"{_rate_of(best):,.0f} rows/s{_lead(best, others)}. {reason}"
        if rate is not None and _rate_of(best) < rate:
            reason += f" {rate:,.0f} rows/s need {_memory_text(best.needed_bytes)}."
    else:
        reason = f"{_memory_text(best.needed_bytes)} for {rate:,.0f} rows/s{_saving(best, others)}. {reason}"
    return best.algorithm, reason


def _preferred(able: list[Option], memory_bytes: float | None) -> Option:
    """The first, or the default if it comes so close that the difference is noise."""
    default = next((option for option in able if option.algorithm == DEFAULT_ALGORITHM), None)
    if default is None:
        return able[0]
    if memory_bytes is not None:
        close = _rate_of(default) >= (1 - _TOLERANCE) * _rate_of(able[0])
    else:
        close = (default.needed_bytes or math.inf) <= (1 + _TOLERANCE) * (able[0].needed_bytes or math.inf)
    return default if close else able[0]


def _rate_of(option: Option) -> float:
    return option.prediction.rows_per_s if option.prediction else 0.0


def _lead(best: Option, others: list[Option]) -> str:
    if not others:
        return ""
    times = _rate_of(best) / max(_rate_of(others[0]), 1e-9)
    return f", {times:.2f} times {others[0].algorithm}"


def _saving(best: Option, others: list[Option]) -> str:
    other = next((option for option in others if option.needed_bytes), None)
    if other is None or not best.needed_bytes or other.needed_bytes is None:
        return ""
    return f", where {other.algorithm} needs {_memory_text(other.needed_bytes)}"


def _what_it_does(option: Option, setting: Setting) -> str:
    found = option.prediction
    assert found is not None
    text = []
    if found.cache_share > 0.001:
        text.append(
            f"A cache of {found.cache_share:.0%} of its memory answers {found.hit_ratio:.0%} of the rows."
        )
    elif option.algorithm not in ("inlj", "meshjoin", "rmeshjoin", "hybridjoin"):
        text.append("No key is asked for often enough to be worth caching.")
    way = "reads the whole table in sequence" if found.access == "scan" else "looks up the pages they need"
    if found.hit_ratio < 1 - 1e-6:
        text.append(f"For the others it {way}; {setting.device.name} is bound by the {_bound_text(found)}.")
    return " ".join(text)


def _bound_text(found: Prediction) -> str:
    return "disk" if found.bound == "reads" else "processor"


def _memory_text(needed_bytes: float | None) -> str:
    if needed_bytes is None or not math.isfinite(needed_bytes):
        return "more than any memory gives"
    return format_bytes(needed_bytes)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
