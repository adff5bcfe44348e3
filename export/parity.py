"""The parity certificate: three ways to the same forecast, compared on the cases of `export.parity_cases`.

    reference   the official state dict in torch, eager, float32
    graph       the exported weights in their runtime (onnxruntime, CPU, one thread), on the same tensors
    pipeline    a raw request as a client writes it -> validation -> scaling and marks -> graph -> raw units

Differences are in scaled units (training standard deviations; without a scaler: the window's own, at least 1).
A case holds if |difference| <= atol + rtol * |reference| everywhere. Relative differences are taken where the
reference exceeds 0.01. One breach fails the export. The cases and reference forecasts travel with the artifact
(`parity.safetensors`), so that the comparison can be repeated anywhere without torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from export.artifact import Artifact
from export.environment import cpu_flags, versions
from export.errors import ParityError
from export.parity_cases import Case
from export.runner import Runner
from models.forecasting.pipeline import to_raw, to_tensors
from models.forecasting.series import read_series
from models.forecasting.spec import ForecastSpec

CASES_FILE = "parity.safetensors"
OUTPUT = "forecast"
RELATIVE_FROM = 0.01
STAGES = ("graph", "pipeline")

Forecasts = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Tolerance:
    """|difference| <= atol + rtol * |reference|, in scaled units."""

    atol: float
    rtol: float


TOLERANCE = Tolerance(atol=2e-5, rtol=1e-4)  # float32 sums in another order; measured: up to 5e-6


@dataclass(frozen=True)
class Difference:
    """Largest absolute and relative difference of one stage of one case, and whether every value holds."""

    max_abs: float
    max_rel: float
    holds: bool

    def as_json(self) -> dict[str, Any]:
        """Numbers and verdict; JSON knows no infinity, so a forecast that is not finite is written as null."""
        found = asdict(self)
        return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in found.items()}


@dataclass(frozen=True)
class CaseResult:
    """One case of the certificate. pipeline is None for cases that only the weights can take."""

    case: Case
    reference: npt.NDArray[np.float32]
    graph: Difference
    pipeline: Difference | None


def check_case(
    case: Case, reference: npt.NDArray[np.float32], run: Runner, spec: ForecastSpec, tolerance: Tolerance
) -> CaseResult:
    """Compare exported weights and served pipeline with the reference forecast [B, H, N] (network units)."""
    unit = _unit(case, spec)
    graph = compare(run(case.tensors(spec)), reference, unit if spec.scaler is None else 1.0, tolerance)
    if not case.raw:
        return CaseResult(case, reference, graph, None)
    expected = reference.astype(np.float64)
    if spec.scaler is not None:
        expected = expected * spec.scaler.std + spec.scaler.mean
    zero = 0.0 if spec.scaler is None else spec.scaler.mean
    served = serve(case, run, spec)
    return CaseResult(case, reference, graph, compare(served - zero, expected - zero, unit, tolerance))


def compare(got: Forecasts, expected: Forecasts, unit: Any, tolerance: Tolerance) -> Difference:
    """Largest differences of two arrays of one shape, both divided by `unit` (broadcast over columns)."""
    if got.shape != expected.shape or not np.isfinite(got).all():
        return Difference(float("inf"), float("inf"), False)
    wanted = np.abs(expected / unit)
    apart = np.abs((got.astype(np.float64) - expected) / unit)
    large = wanted > RELATIVE_FROM
    relative = float((apart[large] / wanted[large]).max()) if large.any() else 0.0
    holds = bool((apart <= tolerance.atol + tolerance.rtol * wanted).all())
    return Difference(_short(float(apart.max())), _short(relative), holds)


def serve(case: Case, run: Runner, spec: ForecastSpec) -> npt.NDArray[np.float64]:
    """The case as one batch of raw requests through the pipeline: raw forecasts [B, H, N]."""
    if spec.takes_marks and case.wall_clock is None:  # only tensor requests may leave the calendar out
        return to_raw(run(to_tensors(case.history, None, spec)), spec)
    windows = [read_series(series, spec, f"series[{i}]") for i, series in enumerate(as_requests(case, spec))]
    axes = [window.axis.wall_clock for window in windows if window.axis is not None]
    clock = np.stack(axes) if axes else None
    return to_raw(run(to_tensors(np.stack([w.history for w in windows]), clock, spec)), spec)


def as_requests(case: Case, spec: ForecastSpec) -> list[dict[str, Any]]:
    """The windows of a case as entries of a native request's `series`."""
    names = spec.columns or tuple(f"series_{i}" for i in range(case.history.shape[2]))
    requests = []
    for i, window in enumerate(case.history):
        series: dict[str, Any] = {"values": {n: window[:, c].tolist() for c, n in enumerate(names)}}
        if case.wall_clock is not None:
            series["timestamps"] = np.datetime_as_string(case.wall_clock[i].astype("M8[s]"), unit="s").tolist()
        requests.append(series)
    return requests


def require(results: Sequence[CaseResult], tolerance: Tolerance) -> None:
    """Raise ParityError for the first stage of the first case that is out of tolerance."""
    for result in results:
        for stage in STAGES:
            difference: Difference | None = getattr(result, stage)
            if difference is not None and not difference.holds:
                raise ParityError(
                    f"parity breach: {stage} differs from the official layout in torch by {difference.max_abs:.3g} "
                    f"(case {result.case.name}), tolerance {tolerance.atol:g} + {tolerance.rtol:g} * |value|; "
                    "nothing was stored",
                    "check hyper-parameters that leave no trace in the tensors (heads, activation, use_norm); "
                    "if they are right, export with --runtime torch and report the case",
                )


def certificate(results: Sequence[CaseResult], tolerance: Tolerance, runtime: str, opset: int | None) -> dict[str, Any]:
    """`parity.json`. Holds no dates and no host names."""
    found = [d for r in results for d in (r.graph, r.pipeline) if d is not None]
    worst = {"max_abs": max(d.max_abs for d in found), "max_rel": max(d.max_rel for d in found)}
    return {
        "format_version": 1,
        "verdict": "ok" if all(d.holds for d in found) else "breach",
        **worst,
        "outputs": {OUTPUT: worst},
        "unit": "scaled units (training standard deviations)",
        "tolerance": asdict(tolerance),
        "stages": [
            "official layout, torch eager, float32",
            f"{runtime}, CPU, one thread",
            "served pipeline, raw units",
        ],
        "runtime": runtime,
        "opset": opset,
        "versions": versions(),
        "cpu": cpu_flags(),
        "cases": [_entry(result) for result in results],
    }


def save_cases(results: Sequence[CaseResult], path: Path) -> None:
    """Write windows and reference forecasts, so that the comparison can be repeated without torch."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for r in results:
        arrays[f"{r.case.name}/history"] = np.ascontiguousarray(r.case.history)
        arrays[f"{r.case.name}/{OUTPUT}"] = np.ascontiguousarray(r.reference)
        if r.case.wall_clock is not None:
            arrays[f"{r.case.name}/wall_clock"] = np.ascontiguousarray(r.case.wall_clock)
    save_file(arrays, path)


def recheck(artifact: Artifact, run: Runner, spec: ForecastSpec) -> list[CaseResult]:
    """Repeat every recorded case of a stored artifact with its recorded tolerance."""
    recorded: Mapping[str, Any] = artifact.read_json("parity.json")
    tolerance = Tolerance(**recorded["tolerance"])
    arrays = load_file(artifact.file(CASES_FILE))
    results = []
    for entry in recorded["cases"]:
        name = entry["name"]
        case = Case(name, arrays[f"{name}/history"], arrays.get(f"{name}/wall_clock"), entry["raw"])
        results.append(check_case(case, arrays[f"{name}/{OUTPUT}"], run, spec, tolerance))
    return results


def _unit(case: Case, spec: ForecastSpec) -> Any:
    if case.raw and spec.scaler is not None:
        return spec.scaler.std
    return np.maximum(case.history.std(axis=(0, 1)), 1.0)


def _entry(result: CaseResult) -> dict[str, Any]:
    batch, _, variates = result.case.history.shape
    return {
        "name": result.case.name,
        "batch": batch,
        "variates": variates,
        "calendar": result.case.wall_clock is not None,
        "raw": result.case.raw,
        "shape": list(result.reference.shape),
        "graph": result.graph.as_json(),
        "pipeline": None if result.pipeline is None else result.pipeline.as_json(),
    }


def _short(value: float) -> float:
    """Three significant digits: a certificate is read by people."""
    return float(f"{value:.2e}")
