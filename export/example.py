"""`example.json`: one raw request with the answer the exported weights gave when they were pressed.

It warms a served model up, decides whether it is ready, and shows a stranger what to send and what comes back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from export.parity import Tolerance, as_requests
from export.parity_cases import Case
from export.runner import Runner
from models.forecasting.pipeline import to_raw, to_tensors
from models.forecasting.series import read_series
from models.forecasting.spec import ForecastSpec

SERIES_ID = "example"


def make_example(name: str, case: Case, run: Runner, spec: ForecastSpec, tolerance: Tolerance) -> dict[str, Any]:
    """The first window of a case as a native request, its answer, and how far another machine's may differ.

    tolerance  |difference| <= atol + rtol * |value|, in raw units
    """
    series = {"id": SERIES_ID, **as_requests(case, spec)[0]}
    unit = 1.0 if spec.scaler is None else float(spec.scaler.std.max())
    return {
        "request": {"model": name, "series": [series]},
        "response": {"series": [answer(series, run, spec)]},
        "tolerance": {"atol": tolerance.atol * unit, "rtol": tolerance.rtol},
    }


def answer(series: dict[str, Any], run: Runner, spec: ForecastSpec) -> dict[str, Any]:
    """One series of a native request, forecast: an entry of the native answer's `series`."""
    window = read_series(series, spec, "series[0]")
    clock = None if window.axis is None else window.axis.wall_clock[None]
    forecast = to_raw(run(to_tensors(window.history[None], clock, spec)), spec)[0]
    stamps = None
    if window.axis is not None:
        stamps = window.axis.write(spec.frequency.after(int(window.axis.steps[-1]), spec.horizon))
    return {
        "id": window.id,
        "timestamps": stamps,
        "values": {column: forecast[:, i].tolist() for i, column in enumerate(window.columns)},
        "history": {"received": window.received, "used": spec.look_back},
        "warnings": [],
    }


def largest_difference(example: dict[str, Any], run: Runner, spec: ForecastSpec) -> tuple[float, bool]:
    """Repeat a recorded example: the largest absolute difference in raw units, and whether all values hold."""
    worst, holds = 0.0, True
    tolerance = example["tolerance"]
    for sent, expected in zip(example["request"]["series"], example["response"]["series"], strict=True):
        values = answer(sent, run, spec)["values"]
        for column, wanted in expected["values"].items():
            got, reference = np.array(values[column]), np.array(wanted)
            worst = max(worst, float(np.abs(got - reference).max()))
            holds &= bool(np.allclose(got, reference, **tolerance))
    return worst, holds
