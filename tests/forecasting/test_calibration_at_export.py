"""Calibration at export: which windows, which scores, and what is refused; with a forecaster whose errors are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from persistence import COLUMNS, HORIZON, LOOK_BACK, Line, spec_of

from export.errors import DataError, OptionError
from export.forecast_calibration import calibrate
from export.forecast_data import DataOptions, Prepared, prepare
from export.runner import Tensors
from models.forecasting.conformal import unrest

TRAIN, TEST = 300, (400, 500)


def run(tensors: Tensors) -> np.ndarray:
    return Line().run(dict(tensors))["forecast"]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """500 hours of noise."""
    values = np.random.default_rng(0).normal(5, 2, (500, 2))
    index = pd.date_range("2026-01-01", periods=500, freq="h", name="date")
    pd.DataFrame(values, columns=list(COLUMNS), index=index).to_csv(tmp_path / "data.csv")
    return tmp_path / "data.csv"


def prepared(csv: Path, split: str = "custom") -> Prepared:
    return prepare(DataOptions(data=csv, split=split))


def expected_scores(values: np.ndarray, unit: np.ndarray, season: int = 24) -> np.ndarray:
    """The definition, window by window."""
    scores = []
    for start in range(len(values) - LOOK_BACK - HORIZON + 1):
        history, truth = values[start : start + LOOK_BACK], values[start + LOOK_BACK :][:HORIZON]
        steps = np.arange(1, HORIZON + 1)[:, None]
        forecast = history[-1] + steps * (history[-1] - history[-2])
        scores.append(np.abs(truth - forecast) / (unrest(history[None], unit, season)[0] * unit))
    return np.array(scores)


def test_scores_are_those_of_all_windows_before_the_test_rows(csv: Path) -> None:
    facts = prepared(csv)
    found = calibrate(run, spec_of(), facts)
    assert facts.split is not None
    assert facts.split.test is not None
    assert facts.table is not None
    rows = facts.table.values[: facts.split.test[0]]
    scores = np.sort(expected_scores(rows, rows.std(axis=0)), axis=0)
    count = len(scores)
    assert found.words["intervals"] == {
        "method": "split-conformal", "levels": "1 to 99", "windows": count, "data": "data.csv", "rows": "0:400",
        "season": 24, "weights": "every time of year alike",
        "difficulty": "distance of the last season from those before it, of the column and of all",
    }  # fmt: skip
    assert found.calibration.conformal is not None
    for level in (1, 50, 80, 99):
        rank = min(int(np.ceil((count + 1) * level / 100)), count) - 1
        np.testing.assert_allclose(found.calibration.conformal.quantile(level), scores[rank], rtol=1e-4)


def test_a_month_that_is_in_the_file_twice_weighs_half(tmp_path: Path) -> None:
    """Sixteen months of days, the calibration's years as the frequency says them."""
    generator = np.random.default_rng(3)
    index = pd.date_range("2024-01-01", periods=480, freq="D", name="date")
    pd.DataFrame(generator.normal(5, 2, (480, 2)), columns=list(COLUMNS), index=index).to_csv(tmp_path / "days.csv")
    facts = prepare(DataOptions(data=tmp_path / "days.csv", split="0:480"))
    found = calibrate(run, spec_of("d"), facts).calibration.conformal
    assert found is not None
    assert facts.table is not None
    rows = facts.table.values
    scores = expected_scores(rows, rows.std(axis=0), season=7)
    years = np.array([1 + (start >= 365) + (start < len(scores) - 365) for start in range(len(scores))])
    weights = 1 / years
    order = np.argsort(scores[:, 0, 0])
    place = np.searchsorted(weights[order].cumsum(), 0.8 * (weights.sum() + 1))
    np.testing.assert_allclose(found.quantile(80)[0, 0], scores[order[place], 0, 0], rtol=1e-5)


def test_the_reference_is_the_training_rows(csv: Path) -> None:
    facts = prepared(csv)
    found = calibrate(run, spec_of(), facts)
    assert facts.table is not None
    assert found.words["drift"] == {"data": "data.csv", "rows": "0:350"}
    assert found.calibration.reference is not None
    np.testing.assert_allclose(found.calibration.reference.edges[4], np.median(facts.table.values[:350], axis=0))


def test_a_file_of_its_own_is_used_whole(csv: Path, tmp_path: Path) -> None:
    recent = tmp_path / "recent.csv"
    pd.read_csv(csv).tail(150).to_csv(recent, index=False)
    found = calibrate(run, spec_of(), prepared(csv), str(recent))
    assert found.words["intervals"]["rows"] == "0:150"
    assert found.words["intervals"]["windows"] == 150 - LOOK_BACK - HORIZON + 1


def test_none_leaves_intervals_out(csv: Path) -> None:
    found = calibrate(run, spec_of(), prepared(csv), "none")
    assert found.calibration.conformal is None
    assert found.calibration.reference is not None
    assert "intervals" not in found.words


def test_too_few_rows_calibrate_nothing_unless_they_were_named(csv: Path, tmp_path: Path) -> None:
    assert calibrate(run, spec_of(), prepared(csv, "0:110")).calibration.conformal is None
    short = tmp_path / "short.csv"
    pd.read_csv(csv).tail(110).to_csv(short, index=False)
    with pytest.raises(DataError, match="99 windows") as refusal:
        calibrate(run, spec_of(), prepared(csv), str(short))
    assert "give at least 111 rows" in refusal.value.hint


def test_what_cannot_calibrate_is_refused(csv: Path) -> None:
    with pytest.raises(OptionError, match="does not exist"):
        calibrate(run, spec_of(), prepared(csv), "nowhere.csv")
    with pytest.raises(OptionError, match="named columns"):
        calibrate(run, spec_of(columns=None), prepared(csv), str(csv))
