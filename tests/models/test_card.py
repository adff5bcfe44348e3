"""CARD's promises: exact window length, ordered columns, the official quirks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from models.card.attention import Attention, smoothing_matrix
from models.card.config import CardConfig, parse_config
from models.errors import InputError

Make = Callable[..., nn.Module]


def window(batch: int = 2, variates: int = 3, steps: int = 96) -> torch.Tensor:
    return torch.randn(batch, steps, variates, generator=torch.Generator().manual_seed(7)) * 3 + 5


def config(**changes: object) -> CardConfig:
    sizes = {"seq_len": 96, "pred_len": 6, "enc_in": 3, "d_model": 16, "n_heads": 4, "e_layers": 1, "d_ff": 8}
    return parse_config(sizes | changes)


@pytest.mark.parametrize("steps", [95, 97, 103])
def test_a_window_of_another_length_never_passes_silently(small: Make, steps: int) -> None:
    with pytest.raises(InputError, match=f"got {steps} time steps, this network needs exactly 96"):
        small("card")(window(steps=steps))


def test_more_variates_than_the_smoothing_covers_are_refused(small: Make) -> None:
    network = small("card")
    assert network(window(variates=12)).shape == (2, 6, 12)  # 12 tokens: 1 leading, 11 patches
    with pytest.raises(InputError, match="got 13 variates, this network aligns at most 12"):
        network(window(variates=13))


def test_the_order_of_the_columns_matters(small: Make) -> None:
    network, x, order = small("card"), window(), torch.tensor([2, 0, 1])
    assert (network(x[:, :, order]) - network(x)[:, :, order]).abs().max() > 1e-3


def test_one_nan_spoils_its_own_window_only(small: Make) -> None:
    network, x = small("card"), window()
    spoilt = x.clone()
    spoilt[0, 5, 1] = torch.nan
    forecast = network(spoilt)
    assert torch.isnan(forecast[0]).all()
    torch.testing.assert_close(forecast[1], network(x)[1])


@pytest.mark.parametrize("variates", [1, 2])
def test_a_leading_token_from_statistics_works_for_one_variate_and_for_several(small: Make, variates: int) -> None:
    forecast = small("card", use_statistic=True)(window(variates=variates))
    assert forecast.shape == (2, 6, variates)
    assert torch.isfinite(forecast).all()


def test_smoothing_rows_are_exponential_averages_and_zero_beyond_the_tokens() -> None:
    matrix = smoothing_matrix(config(enc_in=14, alpha=0.5))
    expected = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0], [0.125, 0.125, 0.25, 0.5]])
    assert matrix.shape == (14, 14)
    torch.testing.assert_close(matrix[:4, :4], expected)
    torch.testing.assert_close(matrix[:12].sum(dim=1), torch.ones(12))
    assert not matrix[12:].any()


@pytest.mark.parametrize(
    ("merge_size", "rows"),
    [(1, [["a0", "b0"], ["a1", "b1"], ["a2", "b2"]]), (2, [["a0", "a1"], ["a2", "b0"], ["b1", "b2"]])],
)
def test_heads_are_merged_as_the_docstring_says(merge_size: int, rows: list[list[str]]) -> None:
    names = ["a0", "a1", "a2", "b0", "b1", "b2"]
    block = Attention(config(d_model=2, n_heads=2, merge_size=merge_size), over_channels=False)
    heads = torch.arange(6.0).reshape(1, 1, 2, 3, 1)  # 2 heads of 3 rows of width 1
    assert [[names[int(i)] for i in row] for row in block.merge_heads(heads)[0, 0]] == rows


@pytest.mark.parametrize(
    ("steps", "stride", "patches"), [(96, 8, 11), (103, 8, 11), (104, 8, 12), (16, 8, 1), (96, 100, 1)]
)
def test_steps_left_over_behind_the_last_patch_are_not_read(steps: int, stride: int, patches: int) -> None:
    assert config(seq_len=steps, stride=stride).patches == patches
