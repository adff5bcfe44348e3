"""Scores of two-by-two matrices worked out by hand, and what a pattern promises of any matrix."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models.pruning.activations import InputStatistics
from models.pruning.errors import PruningError
from models.pruning.magnitude import magnitude_score
from models.pruning.pattern import NM, PerOutput, WholeMatrix, parse_pattern
from models.pruning.ria import relative_importance, ria_score
from models.pruning.scoring import score_named
from models.pruning.wanda import wanda_score

WEIGHT = torch.tensor([[1.0, -3.0], [2.0, 2.0]])
ENERGY = torch.tensor([16.0, 1.0])  # ||x||^2


def test_magnitude_is_the_absolute_weight() -> None:
    assert magnitude_score(WEIGHT).tolist() == [[1, 3], [2, 2]]


def test_wanda_scales_a_column_by_its_input_norm() -> None:
    assert wanda_score(WEIGHT, ENERGY).tolist() == [[4, 3], [8, 2]]


def test_relative_importance_is_the_share_of_column_and_row() -> None:
    expected = [[1 / 3 + 1 / 4, 3 / 5 + 3 / 4], [2 / 3 + 2 / 4, 2 / 5 + 2 / 4]]
    torch.testing.assert_close(relative_importance(WEIGHT), torch.tensor(expected))


@pytest.mark.parametrize(("power", "scale"), [(0.0, 1.0), (0.5, 2.0), (1.0, 4.0)])
def test_ria_softens_the_input_norm_by_its_power(power: float, scale: float) -> None:
    relative = relative_importance(WEIGHT)
    torch.testing.assert_close(ria_score(WEIGHT, ENERGY, power), relative * torch.tensor([scale, 1.0]))


def test_a_column_of_zeros_scores_zero_and_not_nan() -> None:
    assert relative_importance(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))[:, 0].tolist() == [0, 0]


def test_an_unknown_score_lists_the_known_ones() -> None:
    with pytest.raises(PruningError, match="magnitude or ri or wanda or ria"):
        score_named("sparsegpt")


def test_energy_is_the_mean_over_sequences_of_the_sum_over_tokens() -> None:
    statistics = InputStatistics(2, with_gram=True)
    statistics.add(torch.tensor([[1.0, 0.0], [2.0, 1.0]]))
    statistics.add(torch.tensor([[[3.0, 0.0]]]))
    assert statistics.energy.tolist() == [7.0, 0.5]
    assert statistics.gram is not None
    torch.testing.assert_close(statistics.gram, torch.tensor([[14.0, 2.0], [2.0, 1.0]]))


def test_sequences_together_count_as_one_after_another() -> None:
    sequences = torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0))
    together, apart = InputStatistics(3), InputStatistics(3)
    together.add(sequences)
    for sequence in sequences:
        apart.add(sequence)
    torch.testing.assert_close(together.energy, apart.energy)


def test_whole_matrix_removes_one_weight_more_than_the_share_says() -> None:
    keep = WholeMatrix(0.5).keep(torch.tensor([[1.0, 4.0], [2.0, 3.0]]))
    assert keep.tolist() == [[False, True], [False, False]]


def test_per_output_removes_the_share_of_every_row() -> None:
    keep = PerOutput(0.5).keep(torch.tensor([[1.0, 4.0], [9.0, 8.0]]))
    assert keep.tolist() == [[False, True], [True, False]]


def test_two_of_four_keeps_the_highest_of_each_group() -> None:
    keep = NM(2, 4).keep(torch.tensor([[1.0, 4.0, 2.0, 3.0, 5.0, 1.0, 1.0, 2.0]]))
    assert keep.int().tolist() == [[0, 1, 0, 1, 1, 0, 0, 1]]


@st.composite
def scores_and_patterns(draw: st.DrawFn) -> tuple[Tensor, NM]:
    of = draw(st.sampled_from([2, 4, 8, 5]))
    kept = draw(st.integers(1, of - 1))
    rows, groups = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    levels = draw(st.sampled_from([2, 1000]))  # few levels: many ties
    return torch.randint(levels, (rows, groups * of), generator=generator).float(), NM(kept, of)


@given(scores_and_patterns())
@settings(deadline=None, max_examples=60)
def test_any_matrix_keeps_exactly_n_of_every_m_and_never_a_lower_score_than_it_drops(case: tuple[Tensor, NM]) -> None:
    score, pattern = case
    keep = pattern.keep(score)
    groups, scores = keep.reshape(-1, pattern.of), score.reshape(-1, pattern.of)
    assert (groups.sum(dim=1) == pattern.kept).all()
    lowest_kept = scores.masked_fill(~groups, torch.inf).min(dim=1).values
    highest_dropped = scores.masked_fill(groups, -torch.inf).max(dim=1).values
    assert (lowest_kept >= highest_dropped).all()
    assert pattern.obeyed_by(torch.where(keep, 1.0, 0.0))


@given(st.floats(0.01, 0.99), st.integers(0, 2**31))
@settings(deadline=None, max_examples=40)
def test_unstructured_masks_remove_what_they_promise(sparsity: float, seed: int) -> None:
    score = torch.randperm(12 * 20, generator=torch.Generator().manual_seed(seed)).reshape(12, 20).float()
    assert int((~WholeMatrix(sparsity).keep(score)).sum()) == int(240 * sparsity) + 1
    assert ((~PerOutput(sparsity).keep(score)).sum(dim=1) == int(20 * sparsity)).all()


def test_a_matrix_with_one_weight_too_many_breaks_the_pattern() -> None:
    assert NM(2, 4).obeyed_by(torch.tensor([[1.0, 1.0, 0.0, 0.0]]))
    assert not NM(2, 4).obeyed_by(torch.tensor([[1.0, 1.0, 1.0, 0.0]]))
    assert not WholeMatrix(0.5).obeyed_by(torch.tensor([[1.0, 1.0, 1.0, 0.0]]))


@pytest.mark.parametrize("text", ["4:2", "0:4", "4:4"])
def test_a_pattern_that_keeps_none_or_all_is_refused(text: str) -> None:
    with pytest.raises(PruningError, match="0 < N < M"):
        parse_pattern(text, 0.5, per_output=False)


@pytest.mark.parametrize("text", ["half", "2-4", "a:b", ":"])
def test_a_pattern_nobody_knows_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(PruningError, match="N:M such as 2:4"):
        parse_pattern(text, 0.5, per_output=False)


@pytest.mark.parametrize("sparsity", [0.0, 1.0, -0.1, float("nan")])
def test_a_sparsity_that_prunes_nothing_or_everything_is_refused(sparsity: float) -> None:
    with pytest.raises(PruningError, match="between 0 and 1"):
        WholeMatrix(sparsity)


def test_inputs_that_do_not_divide_into_groups_are_refused() -> None:
    with pytest.raises(PruningError, match="a multiple of 4"):
        NM(2, 4).keep(torch.ones(2, 6))
