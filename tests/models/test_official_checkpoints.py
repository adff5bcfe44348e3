"""Official state dicts: translated completely, contradicted by name, and the trained ones forecast as recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from forecasters import ROOT, SMALL, Bundled
from safetensors.torch import load_file
from torch import Tensor

from models.forecasting.registry import architecture, detect
from models.statedict import CheckpointError

GOLDEN = ROOT / "tests" / "golden"
Read = Callable[[str], Bundled]


def refusal(name: str, state: dict[str, Tensor], config: dict[str, Any]) -> CheckpointError:
    found = architecture(name)
    with pytest.raises(CheckpointError) as caught:
        found.translate(state, found.parse_config(config))
    return caught.value


def windows(bundled: Bundled) -> tuple[Tensor, Tensor]:
    """The sample windows, scaled, float32 [5, 96, 7], and their hourly marks [5, 96, 4]."""
    frame = pd.read_csv(ROOT / "data" / "ett" / "ETTh1.csv", parse_dates=["date"])
    data = bundled.document["data"]
    scaled = (frame[data["columns"]].to_numpy() - data["scaler_mean"]) / data["scaler_std"]
    date = frame["date"].dt
    marks = (
        np.stack([date.hour / 23, date.day_of_week / 6, (date.day - 1) / 30, (date.day_of_year - 1) / 365], axis=1)
        - 0.5
    )
    rows = [slice(first, first + 96) for first in bundled.samples["input.first_row"].tolist()]
    pick = [np.stack([source[row] for row in rows]).astype(np.float32) for source in (scaled, marks)]
    return torch.from_numpy(pick[0]), torch.from_numpy(pick[1])


def network_of(name: str, bundled: Bundled) -> torch.nn.Module:
    found = architecture(name)
    config = found.parse_config(bundled.document["config"])
    network = found.build(config)
    network.load_state_dict(found.translate(bundled.state, config).state, strict=True)
    return network


@pytest.mark.parametrize("name", SMALL)
def test_trained_checkpoints_forecast_the_recorded_samples(bundled: Read, name: str) -> None:
    trained = bundled(name)
    x, marks = windows(trained)
    forecast = network_of(name, trained)(x, marks) if name == "itransformer" else network_of(name, trained)(x)
    torch.testing.assert_close(forecast, trained.samples["output.forecast_scaled"], **trained.document["tolerance"])


def test_the_trained_itransformer_forecasts_the_recorded_samples_without_marks(bundled: Read) -> None:
    trained = bundled("itransformer")
    forecast = network_of("itransformer", trained)(windows(trained)[0], None)
    expected = trained.samples["output.forecast_scaled_without_marks"]
    torch.testing.assert_close(forecast, expected, **trained.document["tolerance"])


@pytest.mark.parametrize("name", SMALL)
def test_networks_hold_the_official_number_of_parameters_that_matter(bundled: Read, name: str) -> None:
    trained = bundled(name)
    dropped = (
        architecture(name).translate(trained.state, architecture(name).parse_config(trained.document["config"])).dropped
    )
    unread = sum(trained.state[key].numel() for key in dropped if "ema_matrix" not in key and "batches" not in key)
    ours = sum(parameter.numel() for parameter in network_of(name, trained).parameters())
    assert ours + unread == trained.document["parameters"]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod."])
def test_an_architecture_is_recognised_by_its_tensors(bundled: Read, name: str, prefix: str) -> None:
    assert detect(prefix + key for key in bundled(name).state) == name


@pytest.mark.parametrize(
    ("system", "case"),
    [
        ("lift", "lift_dlinear_live"),
        ("lift", "lift_patchtst_accurate"),
        ("arm", "arm_default_192_24"),
        ("arm", "arm_dlinear_160_16"),
    ],
)
def test_a_network_around_another_is_recognised_as_itself(system: str, case: str) -> None:
    names = [key.removeprefix("state.") for key in load_file(GOLDEN / system / f"{case}.safetensors")]
    assert detect(names) == system
    inner = [key.removeprefix("backbone.") for key in names if key.startswith("backbone.")]
    assert detect(inner) == {"lift_dlinear_live": "dlinear", "lift_patchtst_accurate": "patchtst"}.get(case)


def test_tensors_of_something_else_are_not_recognised() -> None:
    assert detect(["encoder.weight", "decoder.bias"]) is None


@pytest.mark.parametrize("name", SMALL)
def test_tensors_settle_the_same_hyper_parameters_the_training_run_recorded(bundled: Read, name: str) -> None:
    trained = bundled(name)
    found = architecture(name).config_from_tensors(trained.state)
    assert found == {field: trained.document["config"][field] for field in found}
    expected = {"pred_len", "d_model", "d_ff", "e_layers"}
    expected |= {"seq_len"} if name == "itransformer" else {"n_heads", "patch_len", "dp_rank", "alpha"}
    assert set(found) == expected


def test_more_columns_than_tokens_can_be_read_off_the_smoothing_buffer() -> None:
    found = architecture("card").config_from_tensors(card_state(enc_in=21))
    assert found["enc_in"] == 21


def test_tensors_of_something_else_settle_nothing() -> None:
    with pytest.raises(CheckpointError, match=r"W_input_projection\.weight: missing"):
        architecture("card").config_from_tensors({"x": torch.zeros(1)})


def test_card_keys_are_accepted_with_and_without_the_prefix(bundled: Read) -> None:
    trained, card = bundled("card"), architecture("card")
    config = card.parse_config(trained.document["config"])
    bare = {key.removeprefix("model."): tensor for key, tensor in trained.state.items()}
    assert len(card.translate(bare, config).state) == len(card.translate(trained.state, config).state)
    assert "cls" not in card.translate(bare, config).dropped
    assert "model.W_statistic.bias" in card.translate(trained.state, config).dropped


@pytest.mark.parametrize("part", [".mlp.", "ema_matrix", "num_batches_tracked", "W_statistic"])
def test_card_tensors_that_are_never_read_may_be_absent(bundled: Read, part: str) -> None:
    trained, card = bundled("card"), architecture("card")
    lean = {key: tensor for key, tensor in trained.state.items() if part not in key}
    assert len(lean) < len(trained.state)
    translated = card.translate(lean, card.parse_config(trained.document["config"]))
    assert len(translated.state) + len(translated.dropped) == len(lean)


@pytest.mark.parametrize("name", SMALL)
def test_half_and_double_precision_tensors_become_float32(bundled: Read, name: str) -> None:
    trained, found = bundled(name), architecture(name)
    wide = {key: tensor.double() for key, tensor in trained.state.items()}
    translated = found.translate(wide, found.parse_config(trained.document["config"]))
    assert {tensor.dtype for tensor in translated.state.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("name", "changes", "tensor", "suspect"),
    [
        ("itransformer", {"seq_len": 48}, "value_embedding.weight: shape [256, 96], expected [256, 48]", "seq_len"),
        ("itransformer", {"d_ff": 64}, "conv1.weight: shape [256, 256, 1], expected [64, 256, 1]", "d_ff"),
        ("itransformer", {"pred_len": 192}, "projector.weight: shape [96, 256], expected [192, 256]", "pred_len"),
        ("itransformer", {"e_layers": 3}, "encoder.attn_layers: 2 layers in the checkpoint", "e_layers says 3"),
        ("card", {"seq_len": 104}, "W_pos_embed: shape [11, 16], expected [12, 16]", "seq_len, patch_len or stride"),
        ("card", {"dp_rank": 4}, "dp_k.weight: shape [8, 8], expected [4, 8]", "dp_rank"),
        ("card", {"enc_in": 13}, "ema_matrix: shape [12, 12], expected [13, 13]", "enc_in"),
        ("card", {"n_heads": 4}, "dp_k.weight: shape [8, 8], expected [8, 4]", "n_heads"),
        ("card", {"alpha": 0.3}, "ema_matrix: smooths with 0.5, alpha says 0.3", "alpha"),
        ("card", {"e_layers": 1}, "Attentions_over_token: 2 layers in the checkpoint", "e_layers says 1"),
    ],
)  # fmt: skip
def test_a_contradiction_names_tensor_shapes_and_hyper_parameter(
    bundled: Read, name: str, changes: dict[str, Any], tensor: str, suspect: str
) -> None:
    trained = bundled(name)
    error = refusal(name, trained.state, trained.document["config"] | changes)
    assert any(tensor in problem and suspect in problem for problem in error.problems), str(error)


@pytest.mark.parametrize("name", SMALL)
def test_missing_and_unexpected_tensors_are_both_listed(bundled: Read, name: str) -> None:
    trained = bundled(name)
    state = dict(trained.state)
    gone = next(key for key in state if key.endswith(("query_projection.weight", "qkv.weight")))
    state["ema.decay"] = state.pop(gone)
    error = refusal(name, state, trained.document["config"])
    assert error.problems[0] == f"{gone.removeprefix('model.')}: missing"
    assert error.problems[1].startswith("ema.decay: unexpected")


def test_weights_with_nan_are_refused_by_name(bundled: Read) -> None:
    trained = bundled("itransformer")
    state = trained.state | {"projector.bias": torch.full((96,), torch.nan)}
    assert (
        refusal("itransformer", state, trained.document["config"]).problems[0].startswith("projector.bias: holds NaN")
    )


def card_state(enc_in: int) -> dict[str, Tensor]:
    """The few tensors config_from_tensors looks at, for 12 tokens."""
    side = max(enc_in, 12)
    return {
        "model.W_input_projection.weight": torch.zeros(16, 16),
        "model.W_pos_embed": torch.zeros(11, 16),
        "model.W_out.weight": torch.zeros(96, 192),
        "model.Attentions_over_token.0.x": torch.zeros(1),
        "model.Attentions_over_channel.0.dp_k.weight": torch.zeros(8, 8),
        "model.Attentions_over_channel.0.ff_1.0.weight": torch.zeros(32, 16),
        "model.Attentions_over_channel.0.ema_matrix": torch.full((side, side), 0.3),
    }
