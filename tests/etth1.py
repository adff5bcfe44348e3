"""The bundled data as tests need it: ETTh1 windows in every wire form, and the official programs' own forecasts.

A window starts at a csv row and has 96 hourly rows of seven columns. `official(architecture)` gives the five test
windows whose forecasts the papers' programs computed (data/README.md).
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

DATA = Path(__file__).resolve().parents[1] / "data"
COLUMNS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
LOOK_BACK = HORIZON = 96
MODELS = {"itransformer": "itransformer-etth1", "card": "card-etth1"}
ITRANSFORMER, CARD = MODELS.values()
FORECAST = "/v1/forecast"
START = 11424  # the first window of the official test split

Series = dict[str, Any]


@cache
def _table() -> tuple[list[str], np.ndarray]:
    with (DATA / "ett" / "ETTh1.csv").open() as file:
        header, *rows = csv.reader(file)
    assert tuple(header[1:]) == COLUMNS
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float64)


def values(first: int = START, length: int = LOOK_BACK) -> np.ndarray:
    """float64 [length, 7], raw units."""
    return _table()[1][first : first + length]


def stamps(first: int = START, length: int = LOOK_BACK) -> list[str]:
    """The csv's own timestamps, "2017-10-20 00:00:00"."""
    return _table()[0][first : first + length]


def epochs(first: int = START, length: int = LOOK_BACK) -> list[int]:
    """The same as epoch seconds, reading the wall clock as UTC."""
    start = datetime.fromisoformat(stamps(first, 1)[0]).replace(tzinfo=UTC)
    return [int((start + timedelta(hours=i)).timestamp()) for i in range(length)]


def series(first: int = START, length: int = LOOK_BACK, **fields: Any) -> Series:
    """One series of the native route; `fields` replace or add, None removes."""
    table = values(first, length)
    columns = {name: table[:, i].tolist() for i, name in enumerate(COLUMNS)}
    whole = {"timestamps": stamps(first, length), "values": columns} | fields
    return {key: value for key, value in whole.items() if value is not None}


def request(*entries: Series, model: str = ITRANSFORMER, **fields: Any) -> dict[str, Any]:
    """A native request; one default window if no series is given."""
    return {"model": model, "series": list(entries) or [series()], **fields}


def history(*firsts: int, length: int = LOOK_BACK) -> np.ndarray:
    """float32 [B, length, 7]: the protocol's input tensor."""
    return np.stack([values(first, length) for first in firsts or (START,)]).astype(np.float32)


def clock(*firsts: int, length: int = LOOK_BACK) -> np.ndarray:
    """int64 [B, length]: the protocol's timestamps tensor."""
    return np.array([epochs(first, length) for first in firsts or (START,)], dtype=np.int64)


def forecast_of(entry: Series) -> np.ndarray:
    """float64 [H, 7] of one series of a native answer."""
    assert tuple(entry["values"]) == COLUMNS
    return np.array([entry["values"][name] for name in COLUMNS]).T


@dataclass(frozen=True)
class Official:
    """What the official program forecast for five windows.

    first    csv row each window starts at
    units    float32 [5, H, 7], raw units
    scaled   float32 [5, H, 7], training standard deviations
    unmarked the same without calendar marks; None where the network takes none
    """

    first: tuple[int, ...]
    units: np.ndarray
    scaled: np.ndarray
    unmarked: np.ndarray | None


@cache
def official(architecture: str) -> Official:
    found = load_file(DATA / "checkpoints" / f"{architecture}_etth1_96_96_samples.safetensors")
    return Official(
        first=tuple(int(row) for row in found["input.first_row"]),
        units=found["output.forecast_units"],
        scaled=found["output.forecast_scaled"],
        unmarked=found.get("output.forecast_scaled_without_marks"),
    )


@cache
def scaler(architecture: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column's training rows."""
    data = json.loads((DATA / "checkpoints" / f"{architecture}_etth1_96_96.json").read_bytes())["data"]
    return np.array(data["scaler_mean"]), np.array(data["scaler_std"])


def assert_within_certificate(got: np.ndarray, scaled: np.ndarray, architecture: str, tolerance: Any) -> None:
    """A raw forecast [..., H, 7] against the official scaled one, within the certificate's {atol, rtol}.

    The certificate speaks in training standard deviations, so that is where the two are compared.
    """
    mean, std = scaler(architecture)
    np.testing.assert_allclose((got - mean) / std, scaled, **tolerance)
