"""Weights go back to the official layout: what a recipe trains, the official programs can load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from export.golden.case import GoldenCase, read_case
from models.forecasting.architecture import Architecture
from models.forecasting.registry import architecture
from models.lift.estimator import FLOOR, deviation
from models.lift.network import Lift

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path for name in ("arm", "card", "itransformer", "lift") for path in GOLDEN.glob(f"{name}/*.json"))
MIX = "lead_refiner.mix_layer."


def read(case: GoldenCase) -> tuple[Architecture, Any, dict[str, Tensor]]:
    found, state = architecture(case.system), case.group("state")
    return found, found.parse_config({**found.config_from_tensors(state), **case.config}), state


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_an_official_state_dict_comes_back_as_it_was(path: Path) -> None:
    found, config, state = read(read_case(path))
    translated = found.translate(state, config)
    assert found.restore is not None
    back = found.restore(translated.state, config)
    # The l720 program has no `mlp` in its attentions; the others have, and never read it.
    assert {n for n in back.keys() ^ state.keys() if ".mlp." not in n or "l720" not in path.stem} == set()
    for name in state.keys() - set(translated.dropped):
        got = torch.view_as_real(back[name]) if back[name].is_complex() else back[name]
        torch.testing.assert_close(got, state[name], rtol=0, atol=0)


def test_smoothing_buffers_and_counters_come_back_too() -> None:
    found, config, state = read(read_case(GOLDEN / "card" / "card_ett_96_96.json"))
    assert found.restore is not None
    back = found.restore(found.translate(state, config).state, config)
    buffers = [name for name in state if name.endswith("ema_matrix")]
    assert buffers
    for name in buffers:
        torch.testing.assert_close(back[name], state[name])
    assert {t.dtype for name, t in back.items() if name.endswith("num_batches_tracked")} == {torch.int64}


def test_the_mixing_layer_comes_back_complex() -> None:
    found, config, state = read(read_case(GOLDEN / "lift" / "lift_dlinear_live.json"))
    assert found.restore is not None
    back = found.restore(found.translate(state, config).state, config)
    assert (back[f"{MIX}weight"].dtype, back[f"{MIX}bias"].dtype) == (torch.complex64, torch.complex64)


@pytest.mark.parametrize("name", ["dlinear", "patchtst"])
def test_a_backbone_on_its_own_forecasts_as_inside_lift(name: str) -> None:
    stem = {"dlinear": "lift_dlinear_live", "patchtst": "lift_patchtst_accurate"}[name]
    case = read_case(GOLDEN / "lift" / f"{stem}.json")
    own = {n.removeprefix("backbone."): t for n, t in case.group("state").items() if n.startswith("backbone.")}
    found = architecture(name)
    config = found.parse_config({**found.config_from_tensors(own), **case.config})
    network = found.build(config)
    network.load_state_dict(found.translate(own, config).state, strict=True)
    window = case.group("input")["x"]
    torch.testing.assert_close(network(window), case.group("output")["backbone_forecast"], atol=7e-3, rtol=1e-3)


def test_lift_hands_the_window_s_marks_to_a_backbone_that_reads_them() -> None:
    sizes = {"seq_len": 24, "pred_len": 6, "enc_in": 3, "d_model": 16, "n_heads": 4, "e_layers": 1, "d_ff": 8}
    found = architecture("lift")
    network = found.build(found.parse_config({**sizes, "model": "iTransformer", "backbone_marks": 1}))
    assert isinstance(network, Lift)
    generator = torch.Generator().manual_seed(1)
    x, marks = torch.randn(2, 48, 3, generator=generator), torch.rand(2, 48, 4, generator=generator) - 0.5
    alone = network.backbone(x[:, 24:], marks[:, 24:])
    torch.testing.assert_close(network(x, marks), alone, atol=1e-5, rtol=1e-5)  # zero mixing weights add nothing
    assert not torch.allclose(network(x, marks[:, :, :0]), alone, atol=1e-3)
    blind = found.build(found.parse_config({**sizes, "model": "iTransformer"}))
    torch.testing.assert_close(blind(x, marks), blind(x), rtol=0, atol=0)


def test_the_stretched_deviation_is_the_plain_one_bit_for_bit() -> None:
    variance = torch.cat([torch.zeros(1), torch.logspace(-12, 6, 200)])
    assert torch.equal(deviation(variance), torch.sqrt(variance + FLOOR))
