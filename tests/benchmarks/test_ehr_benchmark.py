"""Scores of time-to-event predictors: censoring, resampling by subject, Cox regression, the pages written from them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ehr_pages
from benchmarks.ehr_baselines import Counts, columns, counts, fit_cox
from benchmarks.ehr_scores import Calibration, Predictor, Score, calibration, capped, task_scores, weighted_c
from benchmarks.ehr_throughput import Load, Neighbour, read_bodies
from models.motor.vocabulary import Event, Ontology, Vocabulary
from recipes.motor.labels import Labels, Question
from recipes.motor.probes import concordance
from recipes.motor.records import Record

ONE_BIN = np.zeros(1)
DAY = 86400.0


def exponential(seed: int, size: int, effect: float) -> tuple[np.ndarray, Labels]:
    """Two columns, of which the first multiplies the hazard by e^effect; a third of the labels are censored."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(size, 2))
    time = random.exponential(1000 * DAY / np.exp(effect * x[:, 0]))
    stop = random.exponential(2000 * DAY, size)
    return x, Labels(np.arange(size), np.minimum(time, stop), time <= stop)


def test_events_later_than_nine_tenths_of_the_training_events_are_censored() -> None:
    train = Labels(np.arange(11), np.arange(1.0, 12.0), np.ones(11, dtype=bool))
    known = Labels(np.arange(3), np.array([2.0, 10.0, 11.5]), np.array([True, True, True]))
    found = capped(known, train)
    assert found.seconds.tolist() == [2.0, 10.0, 10.0]
    assert found.event.tolist() == [True, True, False]


def test_intervals_come_from_resampled_subjects_and_are_the_same_for_equal_predictors() -> None:
    x, known = exponential(1, 200, 1.0)
    subjects = np.repeat(np.arange(50), 4)
    random = np.random.default_rng(0)
    draws = [random.integers(50, size=50) for _ in range(40)]
    good, noise = Predictor(x[:, :1], ONE_BIN), Predictor(x[:, 1:], ONE_BIN)
    found = task_scores(known, subjects, {"good": good, "again": good, "noise": noise}, draws)
    assert found.scores["good"] == found.scores["again"]
    assert found.scores["good"].low < found.scores["good"].value < found.scores["good"].high
    assert found.scores["good"].value > 0.65 > found.scores["noise"].value
    everybody = task_scores(known, subjects, {"good": good}, [np.arange(50)] * 2)
    assert everybody.resampled["good"] == pytest.approx(everybody.scores["good"].value)


def test_a_weighted_c_is_that_of_labels_repeated() -> None:
    random = np.random.default_rng(7)
    known = Labels(np.arange(60), np.ceil(random.exponential(20, 60)), random.random(60) < 0.6)  # many ties in time
    predictor = Predictor(random.normal(size=(60, 3)), np.array([0.0, 8.0, 25.0]))
    weights = random.integers(0, 4, (5, 60)).astype(float)
    found = weighted_c(known, predictor, weights)
    for row, value in zip(weights, found, strict=True):
        chosen = np.repeat(np.arange(60), row.astype(int))
        repeated = Labels(chosen, known.seconds[chosen], known.event[chosen])
        assert value == pytest.approx(concordance(repeated, predictor.log2_hazard[chosen], predictor.starts), rel=1e-12)


def test_cox_regression_finds_what_drives_the_hazard() -> None:
    (x, known), (tuning_x, tuning) = exponential(2, 400, 0.8), exponential(3, 300, 0.8)
    x = np.column_stack([x, np.ones(len(x))])  # a column that does not vary has no coefficient
    tuning_x = np.column_stack([tuning_x, np.ones(len(tuning_x))])
    fitted = fit_cox(x, known, tuning_x, tuning)
    assert fitted.vector[0] == pytest.approx(0.8, abs=0.15)
    assert abs(fitted.vector[1]) < 0.15
    assert fitted.vector[2] == 0
    assert fitted.tuning_c > 0.65


def test_baselines_count_tokens_up_to_the_question_only() -> None:
    start = datetime(1950, 1, 1)
    days = [(0, "MEDS_BIRTH"), (365, "A"), (366, "A"), (800, "B")]
    record = Record(1, start, [Event(start + timedelta(days=day), code) for day, code in days])
    entries = [{"type": "code", "code_string": code} for code in ("A", "B")]
    vocabulary = Vocabulary({"vocab": entries, "age_stats": {"mean": 1e9, "std": 1e9}}, Ontology({}))
    found = counts(vocabulary, 2, [record], [Question(0, start + timedelta(days=d)) for d in (365, 799, 800)])
    np.testing.assert_allclose(np.expm1(found.tokens), [[1, 0], [2, 0], [2, 1]])
    np.testing.assert_allclose(found.age, np.array([365, 799, 800]) / 365.25)


def test_columns_are_chosen_and_scaled_on_the_training_questions() -> None:
    random = np.random.default_rng(4)
    tokens = np.column_stack([random.exponential(size=100), np.r_[1.0, np.zeros(99)], np.ones(100)])
    train = Counts(tokens, random.normal(50, 10, 100))
    chosen = columns(train)
    assert chosen.kept.tolist() == [0]  # the others are rare, or never vary
    np.testing.assert_allclose(chosen.of(train).mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(chosen.of(train).std(axis=0), 1)


def test_true_hazards_are_calibrated() -> None:
    x, known = exponential(5, 4000, 1.0)
    truth = np.log2(np.exp(x[:, :1]) / (1000 * DAY))
    found = calibration(known, known, Predictor(truth, ONE_BIN))
    np.testing.assert_allclose(found.observed, found.predicted, atol=0.07)
    predicted, observed = found.overall
    assert predicted == pytest.approx(observed, abs=0.02)
    assert found.sizes.sum() == 4000


def test_pages_hold_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGE", "PLOT.png", "THROUGHPUT"):
        monkeypatch.setattr(ehr_pages, name.split(".")[0], tmp_path / name)
    score = Score(0.612, 0.5, 0.7)
    tenth = Calibration(365.25, np.linspace(0.1, 0.4, 10), np.linspace(0.1, 0.5, 10), np.ones(10))
    x, known = exponential(6, 40, 1.0)
    scores = task_scores(known, np.arange(40), {"adapter": Predictor(x[:, :1], ONE_BIN)}, [np.arange(40)] * 2)
    tenths = dict.fromkeys([f"task_{i}" for i in range(10)], tenth)
    ehr_pages.write_page({"a_task": scores}, tenths, {"adapter": score}, score, 2)
    page = (tmp_path / "PAGE").read_text()
    assert "| a task | 40 |" in page
    assert "0.612 (0.500 to 0.700)" in page
    assert "| task 9 | 1.0 | 0.250 | 0.300 |" in page
    assert (tmp_path / "PLOT.png").read_bytes()[:4] == b"\x89PNG"
    rates = {"batched": 30.0, "one by one": 20.0}
    loads = {(name, n): Load(rate, 1, 2, 3, 0.25) for name, rate in rates.items() for n in (1, 64)}
    ehr_pages.write_throughput(loads, Neighbour(1, 2, 3, 4, 5, 6, 7, 8), [1, 2, 16221], {"processor": "one"})
    page = (tmp_path / "THROUGHPUT").read_text()
    assert "1.50 at 1, 1.50 at 64 clients" in page
    assert "16,221 events" in page


def test_the_largest_patient_is_always_asked_about() -> None:
    bodies = read_bodies(3)
    assert len(bodies.sample) == 3
    assert bodies.lengths[-1] > 16_000
    assert bodies.largest in bodies.sample
