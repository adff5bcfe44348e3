"""Split and adaptive conformal intervals, the files they are kept in, and the index of drift, against closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from persistence import HORIZON, conformal, uniform_reference
from safetensors.numpy import load_file, save_file

from models.forecasting import aci
from models.forecasting.aci import Adaptive
from models.forecasting.calibration import FILE, Calibration, load
from models.forecasting.conformal import (
    COARSE,
    FLOOR,
    Conformal,
    calibrate,
    deviation,
    season_of,
    unrest,
    year_of,
    year_weights,
)
from models.forecasting.drift import reference
from models.forecasting.frequency import Frequency

# --- split conformal


def test_a_quantile_is_the_ceil_n_plus_1_p_th_smallest_score() -> None:
    scores = np.arange(1, 200)[:, None, None] * np.ones((1, 2, 3))  # 199 of them: level p is 2 p exactly
    found = calibrate(np.random.default_rng(0).permutation(scores), np.ones(3), season=1)
    for level in (1, 50, 80, 95, 99):
        np.testing.assert_array_equal(found.quantile(level), 2 * level)
    np.testing.assert_array_equal(found.quantile(100), 199)


def test_coverage_of_exchangeable_scores_is_what_theory_says() -> None:
    generator = np.random.default_rng(1)
    scores, fresh = generator.exponential(size=(400, 40, 5)), generator.exponential(size=(2000, 40, 5))
    found = calibrate(scores, np.ones(5), season=1)
    for level in (50, 80, 95):
        share = (fresh <= found.quantile(level)).mean()
        assert share == pytest.approx(-(-401 * level // 100) / 401, abs=0.005)  # its mean is k / (n + 1)


def test_too_few_windows_calibrate_nothing() -> None:
    with pytest.raises(ValueError, match="99 calibration windows"):
        calibrate(np.ones((99, 2, 1)), np.ones(1), season=1)


def test_many_cells_have_fewer_levels() -> None:
    assert calibrate(np.ones((100, 200, 101)), np.ones(101), season=1).levels == COARSE


def test_conformal_refuses_levels_it_does_not_hold() -> None:
    with pytest.raises(LookupError):
        conformal().quantile(101)
    with pytest.raises(ValueError, match="ascend to 100"):
        Conformal((50, 80), np.ones((2, 1, 1), np.float32), np.ones(1), 1, 100)


def test_a_weighted_quantile_is_the_smallest_score_that_weighs_enough_with_those_below_it() -> None:
    """The definition, score by score; the window to come weighs 1."""
    generator = np.random.default_rng(4)
    scores, weights = generator.exponential(size=(150, 2, 3)), generator.uniform(0.1, 1, 150)
    found = calibrate(scores, np.ones(3), 1, weights)
    for level in (1, 33, 80, 95):
        for step, column in np.ndindex(2, 3):
            cell = scores[:, step, column]
            enough = [s for s in cell if weights[cell <= s].sum() >= level / 100 * (weights.sum() + 1)]
            assert found.quantile(level)[step, column] == np.float32(min(enough))


def test_every_time_of_year_weighs_the_same_however_often_it_occurs() -> None:
    np.testing.assert_array_equal(year_weights(np.arange(16), 12), [0.5] * 4 + [1] * 8 + [0.5] * 4)
    np.testing.assert_array_equal(year_weights(np.arange(100, 110), 12), np.ones(10))  # less than a year
    np.testing.assert_array_equal(year_weights(np.arange(24), 12), np.ones(24))  # whole years
    thinned = year_weights(np.arange(0, 30_000, 3), 8766)
    rows = np.arange(0, 30_000, 3) % 8766
    assert thinned[rows < 3702].sum() / thinned.sum() == pytest.approx(3702 / 8766, abs=1e-3)


def test_calm_seasons_do_not_narrow_the_intervals_of_the_year() -> None:
    """Sixteen months whose first and last four are the same calm ones: equal weights would say calmer than a year."""
    calm, restless = np.linspace(0.001, 1, 1000), np.linspace(2, 3, 2000)
    scores = np.concatenate([calm, restless, calm])[:, None, None]
    weights = year_weights(np.arange(4000), 3000)
    assert calibrate(scores, np.ones(1), 1, weights).quantile(50)[0, 0] == pytest.approx(2.25, abs=0.01)
    assert calibrate(scores, np.ones(1), 1).quantile(50)[0, 0] == pytest.approx(2.0, abs=0.01)


def test_unrest_is_how_far_the_last_season_is_from_those_before_it() -> None:
    wave = np.tile([0.0, 3.0, 1.0], 5)[None, :, None]
    np.testing.assert_allclose(unrest(wave, np.ones(1), 3), FLOOR)  # what repeats is easy
    moved = wave.copy()
    moved[:, -3:] += [[[1.0], [-2.0], [3.0]]]
    np.testing.assert_allclose(unrest(moved, np.ones(1), 3), 2 + FLOOR)
    np.testing.assert_allclose(unrest(10 * moved, np.full(1, 10.0), 3), 2 + FLOOR)  # in units
    moved[:, :3] += 100  # of five seasons the oldest is not read
    np.testing.assert_allclose(unrest(moved, np.ones(1), 3), 2 + FLOOR)
    moved[:, 3:6] += 3  # the mean of the three before the last moves by one
    np.testing.assert_allclose(unrest(moved, np.ones(1), 3), (0 + 3 + 2) / 3 + FLOOR)


def test_unrest_without_a_season_is_the_mean_step() -> None:
    walk = np.array([0.0, 1, 3, 2, 4])[None, :, None]
    np.testing.assert_allclose(unrest(walk, np.ones(1), 1), 1.5 + FLOOR)
    np.testing.assert_allclose(unrest(walk, np.ones(1), 3), 1.5 + FLOOR)  # does not fit twice
    np.testing.assert_allclose(unrest(walk[:, :1], np.ones(1), 3), FLOOR)


def test_a_restless_column_says_something_of_its_neighbours() -> None:
    pair = np.array([[0.0, 1, 3, 2, 4], [5, 5, 5, 5, 5]]).T[None]
    own = np.array([1.5 + FLOOR, FLOOR])
    np.testing.assert_allclose(unrest(pair, np.ones(2), 1), [np.sqrt(own * np.sqrt(own.prod()))])


def test_seasons_are_days_of_hours_and_weeks_of_days() -> None:
    found = {text: season_of(Frequency.parse(text)) for text in ("h", "15min", "d", "MS", "2h", "w", "YS")}
    assert found == {"h": 24, "15min": 96, "d": 7, "MS": 12, "2h": 12, "w": 52, "YS": 1}
    years = {text: year_of(Frequency.parse(text)) for text in ("h", "15min", "d", "MS", "w", "QS", "YS")}
    assert years == {"h": 8766, "15min": 35_063, "d": 365, "MS": 12, "w": 52, "QS": 4, "YS": 1}


# --- files


def test_a_calibration_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    assert load(tmp_path) == Calibration(None, None)
    Calibration(conformal(), uniform_reference()).save(tmp_path)
    found = load(tmp_path)
    assert found.conformal is not None
    assert found.reference is not None
    assert (found.conformal.levels, found.conformal.windows) == (conformal().levels, 200)
    np.testing.assert_array_equal(found.conformal.quantiles, conformal().quantiles)
    np.testing.assert_array_equal(found.reference.edges, uniform_reference().edges)


def test_an_artifact_of_before_keeps_the_difficulty_its_scores_were_divided_by(tmp_path: Path) -> None:
    Calibration(conformal(), None).save(tmp_path)
    tensors = load_file(tmp_path / FILE)
    save_file(tensors | {"numbers": tensors["numbers"][:2]}, tmp_path / FILE)
    old = load(tmp_path).conformal
    assert old is not None
    step = np.tile([0.0, 3.0, 1.0], 4) + np.repeat([-1.0, 1.0], 6)
    history = np.stack([step, 2 * step], axis=1)[None]
    found = Conformal(old.levels, old.quantiles, np.ones(2), 3, old.windows, old.measure).difficulty(history)
    np.testing.assert_allclose(found, [[1 + FLOOR, 2 + FLOOR]])  # its deviation from the mean season
    np.testing.assert_allclose(deviation(history, np.ones(2), 7), history.std(axis=1) + FLOOR)
    assert conformal().measure != old.measure


def test_a_difficulty_of_a_later_version_is_refused(tmp_path: Path) -> None:
    Calibration(conformal(), None).save(tmp_path)
    tensors = load_file(tmp_path / FILE)
    save_file(tensors | {"numbers": np.array([1, 200, 9])}, tmp_path / FILE)
    with pytest.raises(ValueError, match="difficulty 9 is not known to this version"):
        load(tmp_path)


# --- adaptive conformal


def test_adaptive_levels_keep_their_promise_whatever_comes() -> None:
    """Proposition 4.1 of the paper, on scores no calibration has seen and no quantile of which is constant."""
    adaptive = Adaptive(conformal(), gamma=0.02)
    generator, misses, steps = np.random.default_rng(2), 0.0, 3000
    for step in range(steps):
        scores = np.clip(generator.beta(2, 2 + 3 * np.sin(step / 300) ** 2, (HORIZON, 2)), 0, 1)  # within calibration
        misses = misses + (scores > adaptive.quantiles())
        adaptive.update(scores)
    alpha = adaptive.nominal
    bound = (np.maximum(alpha, 1 - alpha) + adaptive.gamma) / (adaptive.gamma * steps)
    assert (np.abs(misses / steps - alpha) <= bound).all()


def test_one_truth_moves_every_level_by_the_papers_step() -> None:
    adaptive = Adaptive(conformal())
    scores = np.full((HORIZON, 2), 0.85)  # outside 80 %, inside 90 %
    scores[1] = np.nan  # not known
    adaptive.update(scores)
    moved = adaptive.alpha - adaptive.nominal
    expected = [aci.GAMMA * (1 - level / 100 - (level < 85)) for level in aci.LEVELS]
    np.testing.assert_allclose(moved[:, 0, 0], expected)
    np.testing.assert_array_equal(moved[:, 1], 0)


# --- drift


def test_the_index_is_the_sum_over_bins() -> None:
    known = reference(np.arange(1000, dtype=float)[:, None])
    np.testing.assert_allclose(known.shares, 0.1)
    counts = known.counts(np.repeat([50.0, 950.0], [300, 700])[:, None])  # only the outer bins
    assert counts[:, 0].tolist() == [300, 0, 0, 0, 0, 0, 0, 0, 0, 700]
    seen, trained = np.array([0.3, *[1e-4] * 8, 0.7]), 0.1
    assert known.index(counts)[0] == pytest.approx(((seen - trained) * np.log(seen / trained)).sum())
    assert known.index(known.counts(np.arange(1000.0)[:, None]))[0] == pytest.approx(0)
    assert np.isnan(known.index(known.counts(np.empty((0, 1))))).all()
