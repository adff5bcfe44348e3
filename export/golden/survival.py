"""Golden cases of survival metrics: predictions and labels in, every metric out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from export.golden.case import GoldenCase
from export.golden.compare import OutputResult, absent, compare
from models.motor import metrics
from models.motor.metrics import Array


def survival_results(case: GoldenCase) -> list[OutputResult]:
    """One line a metric; nested ones are named like `kaplan_meier.survival`."""
    made, results = _made(case.document["inputs"], case.document["expected"]), []
    bound = case.tolerance("")
    for name, wanted in _flat(case.document["expected"]).items():
        expected = torch.tensor(np.asarray(wanted, dtype=np.float64))
        if name in made:
            got = torch.tensor(np.asarray(made[name], dtype=np.float64))
            results.append(compare(name, got, expected, bound))
        else:
            results.append(absent(name, "no such metric", expected))
    return results


def _flat(expected: dict[str, Any]) -> dict[str, Any]:
    """Metrics by name; what only states a question (times, grids) is left out."""
    asked = {"at", "grid", "tau"}
    found: dict[str, Any] = {}
    for name, value in expected.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": one for inner, one in value.items() if inner not in asked}
        else:
            found[name] = value
    return found


def _made(inputs: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    time, event = _array(inputs["time"]), np.asarray(inputs["event"], dtype=bool)
    starts, logits = _array(inputs["time_bins"]), _array(inputs["log2_hazard"])
    train = metrics.censoring(_array(inputs["train_time"]), np.asarray(inputs["train_event"], dtype=bool))
    horizons, hazard = _array(inputs["horizons"]), np.exp2(logits)
    survival = metrics.survival_at(logits, starts, horizons)
    concordance, terms = metrics.time_dependent_c(time, event, logits, starts)
    found = {
        "time_dependent_c": concordance,
        "time_dependent_c_terms": _like(terms, expected.get("time_dependent_c_terms")),
        "number_of_terms": len(terms),
        "survival_at_horizons": survival,
        "harrell_c_mean_hazard": metrics.harrell_c(time, event, hazard.mean(axis=1)),
        "sksurv_harrell_c": metrics.harrell_c(time, event, hazard.mean(axis=1)),
        "brier_ipcw.value": metrics.brier(time, event, survival, horizons, train),
    }
    found |= _curves(time, event, expected) | _breslow(time, event, hazard, starts, expected)
    found |= _asked(time, event, logits, starts, train, expected)
    areas, mean = metrics.dynamic_auc(time, event, 1 - survival, horizons, train)
    return found | {"cumulative_dynamic_auc_ipcw.value": areas, "cumulative_dynamic_auc_ipcw.mean": mean}


def _curves(time: Array, event: metrics.Flags, expected: dict[str, Any]) -> dict[str, Any]:
    curve = metrics.kaplan_meier(time, event)
    at = _array(expected["kaplan_meier"]["at"])
    return {"kaplan_meier.survival": curve.at(at), "kaplan_meier.median": metrics.median_survival(curve)}


def _breslow(
    time: Array, event: metrics.Flags, hazard: Array, starts: Array, expected: dict[str, Any]
) -> dict[str, Any]:
    curve = metrics.breslow(time, event, hazard, starts)
    own = metrics.breslow_cdf(time, hazard, starts, curve)
    return {
        "breslow.curve_cumhaz_time": _like(curve, expected["breslow"].get("curve_cumhaz_time")),
        "breslow.n": len(curve),
        "breslow.cdf_at_own_time": own,
        "calibration_histogram_10": metrics.calibration_histogram(own, event),
    }


def _asked(
    time: Array, event: metrics.Flags, logits: Array, starts: Array, train: metrics.Steps, expected: dict[str, Any]
) -> dict[str, Any]:
    """Metrics at the times the case asks for."""
    tau, grid = expected["uno_c_ipcw"]["tau"], _array(expected["integrated_brier_ipcw"]["grid"])
    when = float(expected["nam_dagostino"]["at"])
    errors = metrics.brier(time, event, metrics.survival_at(logits, starts, grid), grid, train)
    risk = 1 - metrics.survival_at(logits, starts, np.array([when]))[:, 0]
    groups, statistic = metrics.nam_dagostino(time, event, risk, when)
    return {
        "uno_c_ipcw.value": metrics.uno_c(time, event, np.exp2(logits).mean(axis=1), train, float(tau)),
        "integrated_brier_ipcw.value": metrics.integrated(errors, grid),
        "nam_dagostino.groups_pred_obs_n": groups,
        "nam_dagostino.statistic_unweighted": statistic,
    }


def _like(rows: Array, wanted: Any) -> Array:
    """Cases may hold only the first and last rows of a long table; those of ours, then."""
    if wanted is None or len(wanted) >= len(rows):
        return rows
    times = np.asarray(wanted, dtype=np.float64)[:, 1]
    return rows[np.isin(np.round(rows[:, 1], 9), np.round(times, 9))]


def _array(values: Any) -> Array:
    return np.asarray(values, dtype=np.float64)
