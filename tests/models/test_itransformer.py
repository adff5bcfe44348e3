"""iTransformer's promises: any variates in any order, optional marks, exact window length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from models.errors import InputError

Make = Callable[..., nn.Module]


def window(batch: int = 2, variates: int = 3, steps: int = 24) -> torch.Tensor:
    return torch.randn(batch, steps, variates, generator=torch.Generator().manual_seed(7)) * 3 + 5


@pytest.mark.parametrize("variates", [1, 2, 3, 17])
def test_any_number_of_variates_is_forecast(small: Make, variates: int) -> None:
    assert small("itransformer")(window(variates=variates), None).shape == (2, 6, variates)


def test_permuting_the_variates_permutes_the_forecast(small: Make) -> None:
    network, x, order = small("itransformer"), window(variates=5), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(network(x[:, :, order]), network(x)[:, :, order], atol=2e-5, rtol=0)


@pytest.mark.parametrize("marks", [0, 3, 4, 5])
def test_marks_of_any_width_leave_one_forecast_a_variate(small: Make, marks: int) -> None:
    assert small("itransformer")(window(), torch.rand(2, 24, marks) - 0.5).shape == (2, 6, 3)


def test_marks_of_no_width_equal_no_marks(small: Make) -> None:
    network, x = small("itransformer"), window()
    torch.testing.assert_close(network(x, torch.zeros(2, 24, 0)), network(x, None), atol=0, rtol=0)


def test_marks_change_the_forecast(small: Make) -> None:
    network, x = small("itransformer"), window()
    assert (network(x, torch.full((2, 24, 4), 0.5)) - network(x)).abs().max() > 1e-3


def test_a_window_is_forecast_alike_alone_and_in_a_batch(small: Make) -> None:
    network, x = small("itransformer"), window(batch=7)
    torch.testing.assert_close(network(x)[3:4], network(x[3:4]), atol=1e-5, rtol=0)


def test_with_use_norm_the_forecast_follows_the_units_of_the_input(small: Make) -> None:
    network, x = small("itransformer"), window()
    torch.testing.assert_close(network(x * 100 + 40), network(x) * 100 + 40, atol=0.05, rtol=1e-4)


def test_without_use_norm_the_forecast_does_not_follow_the_units(small: Make) -> None:
    network, x = small("itransformer", use_norm=0), window()
    assert (network(x * 100) - network(x) * 100).abs().max() > 1


def test_one_nan_spoils_its_own_window_only(small: Make) -> None:
    network, x = small("itransformer"), window()
    spoilt = x.clone()
    spoilt[0, 5, 1] = torch.nan
    forecast = network(spoilt)
    assert torch.isnan(forecast[0]).all()
    torch.testing.assert_close(forecast[1], network(x)[1])


def test_heads_that_do_not_divide_the_width_drop_the_remainder_as_officially(small: Make) -> None:
    network = small("itransformer", d_model=16, n_heads=3)
    assert network.layers[0].attention.query.out_features == 15
    assert network(window()).shape == (2, 6, 3)


@pytest.mark.parametrize("steps", [23, 25])
def test_a_window_of_another_length_is_refused(small: Make, steps: int) -> None:
    with pytest.raises(InputError, match=f"got {steps} time steps, this network needs exactly 24") as refusal:
        small("itransformer")(window(steps=steps))
    assert (refusal.value.code, refusal.value.field) == ("tensor_shape", "x_enc")


def test_marks_that_do_not_cover_the_window_are_refused(small: Make) -> None:
    with pytest.raises(InputError, match="x_mark_enc: got shape"):
        small("itransformer")(window(), torch.zeros(2, 23, 4))


def test_float64_is_refused(small: Make) -> None:
    with pytest.raises(InputError, match="expected float32") as refusal:
        small("itransformer")(window().double())
    assert refusal.value.code == "tensor_dtype"
