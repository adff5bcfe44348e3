"""A task adapter as a file: one vector beside one backbone, small enough to read.

`TASK.adapter.json`, UTF-8, one JSON object:

    format_version  1
    task            its name in requests: lower-case letters, digits, '-', '_', '.'
    version         of the adapter, in the same letters
    backbone        "sha256:..." of the network, dictionary and ontology its features came from
    time_bins       starts of the time bins in seconds, the first 0
    vector          rank + 1 numbers: log2 of the hazard a time unit = (binned features, 1) . vector
    outcome         what is predicted, in words
    codes           codes whose first occurrence is the event
    l2              penalty of the fit
    calibration     what is known about how well its probabilities are calibrated, in words
    metrics         [{name, value, data, split, low?, high?}], low and high: an interval

The vector holds for no other backbone: features of another network have another meaning.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,47}[a-z0-9])?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST = 400  # characters of a text


class TaskFileError(ValueError):
    """An adapter file cannot be used; the message names the field and what was expected."""


@dataclass(frozen=True, kw_only=True)
class TaskMetric:
    """One figure of a held-out evaluation; low and high: its interval, if there is one."""

    name: str
    value: float
    data: str
    split: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class TaskFile:
    """One adapter; fields as in the module's docstring."""

    task: str
    version: str
    backbone: str
    time_bins: tuple[float, ...]
    vector: tuple[float, ...]
    outcome: str
    codes: tuple[str, ...]
    l2: float
    calibration: str
    metrics: tuple[TaskMetric, ...] = field(default=())

    def dump(self) -> bytes:
        """The file's bytes: sorted keys, trailing newline; numbers in full."""
        document = {"format_version": 1, **asdict(self)}
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def read_task_file(raw: bytes) -> TaskFile:
    """The adapter in a file's bytes. Raises TaskFileError."""
    try:
        document = json.loads(raw)
    except ValueError:
        raise TaskFileError("the file is not JSON") from None
    if not isinstance(document, dict) or document.get("format_version") != 1:
        raise TaskFileError("format_version: expected 1")
    if unknown := sorted(document.keys() - {"format_version", *TaskFile.__dataclass_fields__}):
        raise TaskFileError(f"{unknown[0]}: not a field of this format")
    return TaskFile(
        task=_matching(document, "task", _NAME, "lower-case letters, digits, '-', '_' and '.'"),
        version=_matching(document, "version", _NAME, "lower-case letters, digits, '-', '_' and '.'"),
        backbone=_matching(document, "backbone", _DIGEST, "sha256:<64 hex>"),
        time_bins=_bins(document),
        vector=_numbers(document, "vector"),
        outcome=_text(document, "outcome"),
        codes=_codes(document),
        l2=_number(document.get("l2"), "l2"),
        calibration=_text(document, "calibration"),
        metrics=_metrics(document),
    )


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise TaskFileError(f"{name}: expected a text of at most {_LONGEST} characters")
    return value


def _matching(document: Mapping[str, Any], name: str, pattern: re.Pattern[str], expected: str) -> str:
    value = _text(document, name)
    if not pattern.fullmatch(value):
        raise TaskFileError(f"{name}: expected {expected}")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TaskFileError(f"{name}: expected finite numbers")
    return float(value)


def _numbers(document: Mapping[str, Any], name: str) -> tuple[float, ...]:
    value = document.get(name)
    if not isinstance(value, list) or not value:
        raise TaskFileError(f"{name}: expected a list of numbers")
    return tuple(_number(one, name) for one in value)


def _bins(document: Mapping[str, Any]) -> tuple[float, ...]:
    starts = _numbers(document, "time_bins")
    if starts[0] != 0 or list(starts) != sorted(set(starts)):
        raise TaskFileError("time_bins: expected rising numbers that begin with 0")
    return starts


def _codes(document: Mapping[str, Any]) -> tuple[str, ...]:
    value = document.get("codes")
    if not isinstance(value, list) or not all(isinstance(code, str) for code in value):
        raise TaskFileError("codes: expected a list of texts")
    return tuple(value)


def _metrics(document: Mapping[str, Any]) -> tuple[TaskMetric, ...]:
    value = document.get("metrics", [])
    if not isinstance(value, list):
        raise TaskFileError("metrics: expected a list")
    return tuple(_metric(entry) for entry in value)


def _metric(entry: Any) -> TaskMetric:
    known = TaskMetric.__dataclass_fields__.keys()
    if not isinstance(entry, dict) or entry.keys() - known:
        raise TaskFileError(f"metrics: expected objects with {', '.join(known)}")
    low, high = (None if entry.get(name) is None else _number(entry[name], "metrics") for name in ("low", "high"))
    return TaskMetric(
        name=_text(entry, "name"),
        value=_number(entry.get("value"), "metrics"),
        data=_text(entry, "data"),
        split=_text(entry, "split"),
        low=low,
        high=high,
    )
