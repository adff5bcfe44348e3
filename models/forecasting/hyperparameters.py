"""Reading official hyper-parameters: one value, one type, one sentence when it does not fit.

Official programs keep their options in an argparse namespace, so the same value arrives as 96, 96.0, "96", True or 1.
These readers accept what cannot be misunderstood and refuse the rest by name. Unknown options are never looked at:
the official namespaces carry dozens that have no effect on the network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from models.forecasting.architecture import ConfigError

GIVE_IT = "Give it as a hyper-parameter (flag or JSON), or name the official settings directory if that holds it."
SWITCHES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def positive_int(config: Mapping[str, Any], field: str, *, default: int | None = None, remedy: str = GIVE_IT) -> int:
    """A whole number >= 1. A missing or null value takes `default`, or is refused where there is none."""
    value = config.get(field)
    if value is None and default is not None:
        return default
    number = _whole(value)
    if number is None or number < 1:
        raise ConfigError(field, value, "a whole number >= 1", remedy)
    return number


def unit_interval(config: Mapping[str, Any], field: str, *, default: float) -> float:
    """A finite number between 0 and 1, both included."""
    value = config.get(field)
    if value is None:
        return default
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number <= 1.0:
        raise ConfigError(field, value, "a number between 0 and 1", f"The official default is {default}.")
    return number


def switch(config: Mapping[str, Any], field: str, *, default: bool) -> bool:
    """On or off: true, 1, "true", "yes" against false, 0, "false", "no"."""
    value = config.get(field)
    if value is None:
        return default
    word = str(value).strip().lower()
    if word not in SWITCHES:
        raise ConfigError(field, value, "0 or 1 (or true or false)", f"The official default is {int(default)}.")
    return SWITCHES[word]


def choice(config: Mapping[str, Any], field: str, allowed: tuple[str, ...], *, default: str, remedy: str) -> str:
    """One of the allowed words, spelled exactly."""
    value = config.get(field)
    if value is None:
        return default
    if value not in allowed:
        raise ConfigError(field, value, " or ".join(f'"{word}"' for word in allowed), remedy)
    return str(value)


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value)
    return value if isinstance(value, int) else None
