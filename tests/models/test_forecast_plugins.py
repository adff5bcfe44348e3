"""LIFT and ARM answer as the official programs did, and their parts agree with plain second implementations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import models.arm.normalisation
import models.lift.estimator
from export.golden.case import read_case
from export.golden.plugins import run
from models import arm, lift
from models.arm.experts import Experts
from models.forecasting.architecture import ConfigError
from models.lift.estimator import ExactEstimator, LiveEstimator, normalise
from models.lift.refiner import ComplexLinear
from models.lift.spectrum import RealFourier
from models.patchtst import PatchTST, PatchTSTConfig
from models.statedict import CheckpointError

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted([*GOLDEN.glob("lift/*.json"), *GOLDEN.glob("arm/*.json")])


def case_path(name: str) -> Path:
    return next(path for path in CASES if path.stem == name)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_output_is_within_the_stated_tolerance(path: Path) -> None:
    results = run(read_case(path))
    assert len(results) == len(read_case(path).document["outputs"])
    assert [r for r in results if r.verdict != "ok"] == []


def test_another_variance_floor_in_lift_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.lift.estimator, "FLOOR", 1e-2)
    assert any(r.verdict == "fail" for r in run(read_case(case_path("lift_lightmts_live"))))


def test_a_biased_deviation_in_arm_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.arm.normalisation, "WINDOWS", (48, 145, 385))
    verdicts = {r.output: r.verdict for r in run(read_case(case_path("arm_default_192_24")))}
    assert verdicts["forecast"] == "fail"


@pytest.mark.parametrize("length", [1, 2, 7, 24, 36, 97])
def test_real_matrices_do_what_the_fast_fourier_transform_does(length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(3, length, generator=generator)
    fourier = RealFourier(length)
    real, imaginary = fourier(x)
    expected = torch.fft.rfft(x)
    torch.testing.assert_close(torch.complex(real, imaginary), expected, atol=2e-5, rtol=0)
    noisy = torch.complex(real + 0.3, imaginary - 0.2)  # imaginary parts where a real sequence has none
    torch.testing.assert_close(
        fourier.inverse(noisy.real, noisy.imag), torch.fft.irfft(noisy, n=length), atol=1e-5, rtol=0
    )


def naive_leaders(correlation: np.ndarray, count: int) -> tuple[list[int], list[int], list[float]]:
    """One target: correlation [N, S] over leads -> ids, shifts, signed values of the strongest local maxima."""
    best = []
    for candidate, row in enumerate(correlation):
        peaks = [s for s in range(1, len(row) - 1) if abs(row[s]) >= abs(row[s - 1]) and abs(row[s]) >= abs(row[s + 1])]
        lead = max(peaks, key=lambda s: abs(row[s]))
        best.append((abs(row[lead]), candidate, lead, row[lead]))
    chosen = sorted(best, key=lambda entry: -entry[0])[:count]
    return [c[1] for c in chosen], [c[2] for c in chosen], [c[3] for c in chosen]


def test_live_leaders_are_those_of_a_plain_circular_correlation() -> None:
    window = normalise(torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(3)).cumsum(-1))[0]
    found = LiveEstimator(24, 5, 3)(window)
    x = window.double().numpy()
    for b in range(2):
        for i in range(5):
            correlation = np.array([[np.mean(np.roll(x[b, j], s) * x[b, i]) for s in range(24)] for j in range(5)])
            correlation[i] = (correlation[i] + np.roll(correlation[i][::-1], 1)) / 2  # exact symmetry
            ids, shifts, values = naive_leaders(correlation, 3)
            assert found.ids[b, i].tolist() == ids
            assert found.shift[b, i].tolist() == shifts
            np.testing.assert_allclose(found.correlation[b, i].numpy(), values, atol=1e-6)


def test_exact_leaders_correlate_with_the_windows_before() -> None:
    history = torch.randn(1, 4, 40, generator=torch.Generator().manual_seed(5)).cumsum(-1)
    found = ExactEstimator(20, 2)(history)
    x = history[0].double().numpy()

    def window(j: int, back: int) -> np.ndarray:
        cut = x[j, 20 - back : 40 - back]
        return (cut - cut.mean()) / np.sqrt(cut.var() + 1e-8)

    for i in range(4):
        correlation = np.array([[np.mean(window(i, 0) * window(j, s)) for s in range(21)] for j in range(4)])
        ids, shifts, values = naive_leaders(correlation, 2)
        assert found.ids[0, i].tolist() == ids
        assert found.shift[0, i].tolist() == shifts
        np.testing.assert_allclose(found.correlation[0, i].numpy(), values, atol=1e-5)


@pytest.mark.parametrize("length", [3, 24, 97])
def test_windows_that_are_flat_or_far_off_correlate_as_those_cut_out_one_by_one(length: int) -> None:
    history = torch.randn(3, 4, 2 * length, generator=torch.Generator().manual_seed(length)).cumsum(-1)
    history[0, 0] = 5.0  # never changes
    history[1, 1, :length] = 3.0  # did not change before the window
    history[2] = history[2] * 1e-3 + 100  # nearly flat, far from 0
    found = ExactEstimator(length, 4)(history)
    windows = normalise(history.double().unfold(-1, length, 1))[0].flip(2)  # [B, N, L + 1, L]
    expected = torch.einsum("bit,bjst->bijs", windows[:, :, 0], windows) / length
    chosen = expected.gather(2, found.ids.unsqueeze(-1).expand(-1, -1, -1, length + 1))
    at_lead = chosen.gather(-1, found.shift.unsqueeze(-1)).squeeze(-1)
    peaks = found.correlation != 0  # a pair without any peak has no correlation
    torch.testing.assert_close(found.correlation[peaks], at_lead[peaks].float(), atol=1e-6, rtol=1e-6)


def test_of_equal_leads_the_smallest_is_taken() -> None:
    turns = torch.arange(24) * (2 * torch.pi / 8)  # period 8: leads 4, 8, 12, ... are all perfect
    window = normalise(turns.sin().reshape(1, 1, 24))[0]
    assert LiveEstimator(24, 1, 1)(window).shift.item() == 4


def test_the_complex_map_is_torchs_complex_map() -> None:
    generator = torch.Generator().manual_seed(7)
    layer = ComplexLinear(6, 4)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    x = torch.complex(torch.randn(3, 6, generator=generator), torch.randn(3, 6, generator=generator))
    weight = torch.complex(layer.weight_real, layer.weight_imaginary)
    bias = torch.complex(layer.bias_real, layer.bias_imaginary)
    real, imaginary = layer(x.real, x.imag)
    torch.testing.assert_close(torch.complex(real, imaginary), torch.nn.functional.linear(x, weight, bias))


def lift_state(form: str) -> tuple[dict[str, Tensor], lift.LiftConfig]:
    case = read_case(case_path("lift_lightmts_live"))
    state = case.group("state")
    config = lift.ARCHITECTURE.parse_config({**case.config, "estimator": "live"})
    for part in ("weight", "bias"):
        pair = state.pop(f"lead_refiner.mix_layer.{part}")
        if form == "complex":
            state[f"lead_refiner.mix_layer.{part}"] = torch.view_as_complex(pair.contiguous())
        elif form == "distributed":
            state[f"lead_refiner.mix_layer.{part}_real"] = pair[..., 0]
            state[f"lead_refiner.mix_layer.{part}_imag"] = pair[..., 1]
        else:
            state[f"lead_refiner.mix_layer.{part}"] = pair
    assert isinstance(config, lift.LiftConfig)
    return state, config


@pytest.mark.parametrize("form", ["complex", "distributed"])
def test_the_mixing_layer_is_read_from_every_form_it_is_stored_in(form: str) -> None:
    plain = lift.ARCHITECTURE.translate(*lift_state("pairs")).state
    other = lift.ARCHITECTURE.translate(*lift_state(form)).state
    assert plain.keys() == other.keys()
    assert all(torch.equal(plain[name], other[name]) for name in plain)


@pytest.mark.parametrize("backbone", ["iTransformer", "CARD", "DLinear", "PatchTST"])
@pytest.mark.parametrize("estimator", ["exact", "live"])
def test_lift_wraps_every_backbone_and_says_how_much_history_it_needs(backbone: str, estimator: str) -> None:
    sizes = {"seq_len": 48, "pred_len": 24, "enc_in": 3, "d_model": 8, "n_heads": 2, "e_layers": 1, "d_ff": 16}
    config = lift.ARCHITECTURE.parse_config({**sizes, "model": backbone, "estimator": estimator})
    assert config.look_back == (96 if estimator == "exact" else 48)
    assert lift.ARCHITECTURE.parse_config(config.official()) == config
    network = lift.ARCHITECTURE.build(config)
    x = torch.randn(2, config.look_back, 3, generator=torch.Generator().manual_seed(1))
    forecast = network(x)
    assert forecast.shape == (2, 24, 3)
    torch.testing.assert_close(network(x[1:]), forecast[1:])  # a window's answer does not depend on its mates
    raw = network.backbone(x[:, -48:])  # zero mixing weights: LIFT adds nothing to its backbone
    torch.testing.assert_close(forecast, raw, atol=1e-5, rtol=1e-5)


def test_an_unknown_backbone_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="MTGNN") as caught:
        lift.ARCHITECTURE.parse_config({"model": "MTGNN", "seq_len": 48, "pred_len": 24, "enc_in": 3})
    assert caught.value.field == "model"


def test_a_stranger_in_a_lift_checkpoint_is_named() -> None:
    state, config = lift_state("pairs")
    with pytest.raises(CheckpointError, match=r"optimizer\.step: unexpected"):
        lift.ARCHITECTURE.translate({**state, "optimizer.step": torch.zeros(1)}, config)


def test_dense_routing_is_sparse_routing() -> None:
    generator = torch.Generator().manual_seed(9)
    experts = Experts(steps=12, horizon=4, count=3)
    for parameter in experts.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
    x = torch.randn(5, 6, 12, generator=generator)
    found, routes = experts(x), set()
    for b in range(5):
        for n in range(6):
            route = int(experts.switch(x[b, n]).argmax())
            routes.add(route)
            torch.testing.assert_close(found[b, n], experts.experts[route](x[b, n]), atol=1e-6, rtol=1e-5)
    assert routes == {0, 1, 2}


SIZES = {"seq_len": 40, "pred_len": 12, "enc_in": 3, "d_model": 16, "n_heads": 4}
OFF = ("auel_global_flag", "auel_distribution_flag", "moe_flag", "mkls_global_flag", "predictor_mkls_flag")


@pytest.mark.parametrize("predictor", ["Default", "DLinear", "PatchTST"])
@pytest.mark.parametrize("off", ["", *OFF])
def test_arm_forecasts_with_every_part_switched_off(predictor: str, off: str) -> None:
    switches = {off: 0} if off else {}
    config = arm.ARCHITECTURE.parse_config({**SIZES, "predictor": predictor, "n_experts": 2, **switches})
    assert arm.ARCHITECTURE.parse_config(config.official()) == config
    x = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(1))
    marks = torch.zeros(2, 52, 4)
    network = arm.ARCHITECTURE.build(config)
    forecast = network(x, marks)
    assert forecast.shape == (2, 12, 3)
    assert torch.isfinite(forecast).all()
    torch.testing.assert_close(network(x[1:], marks[1:]), forecast[1:])


def test_arm_refuses_marks_that_do_not_cover_the_horizon() -> None:
    network = arm.ARCHITECTURE.build(arm.ARCHITECTURE.parse_config(SIZES))
    with pytest.raises(Exception, match=r"expected \[batch, 52 steps, 4\]"):
        network(torch.zeros(1, 40, 3), torch.zeros(1, 40, 4))


def test_dead_tensors_of_arm_are_named_as_dropped() -> None:
    case = read_case(case_path("arm_default_192_24"))
    config = arm.ARCHITECTURE.parse_config(case.config)
    dropped = arm.ARCHITECTURE.translate(case.group("state"), config).dropped
    assert "decoder_post_mkls.convs.2.weight" in dropped
    assert not [name for name in dropped if "mkls" not in name]


def patchtst(**options: object) -> PatchTST:
    sizes = {"seq_len": 32, "pred_len": 8, "enc_in": 3, "d_model": 8, "n_heads": 2, "e_layers": 2, "d_ff": 16}
    network = PatchTST(PatchTSTConfig(**{**sizes, **options})).eval()  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(11)
    for parameter in network.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return network


def test_patchtst_treats_every_variate_alike_and_alone() -> None:
    network, x = patchtst(), torch.randn(2, 32, 3, generator=torch.Generator().manual_seed(2))
    together = network(x)
    for n in range(3):
        torch.testing.assert_close(network(x[..., n : n + 1]), together[..., n : n + 1], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"subtract_last": True}, {"affine": True}, {"decomposition": True}])
def test_patchtst_follows_the_units_of_a_window(options: dict[str, object]) -> None:
    network, x = patchtst(**options), torch.randn(2, 32, 3, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(network(1000 * x + 50), 1000 * network(x) + 50, atol=0.5, rtol=1e-3)


def test_patchtst_with_equal_maps_for_every_variate_is_patchtst_with_one() -> None:
    one, each = patchtst(), patchtst(individual=True)
    shared = {name: tensor for name, tensor in one.state_dict().items() if ".heads." not in name}
    heads = {
        f"parts.0.heads.{i}.{part}": one.state_dict()[f"parts.0.heads.0.{part}"]
        for i in range(3)
        for part in ("weight", "bias")
    }
    each.load_state_dict(shared | heads)
    x = torch.randn(2, 32, 3, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(each(x), one(x))
