"""LIFT's official state dict: `backbone.*` under the backbone's own names, `lead_refiner.*`.

The mixing layer is complex: complex64 tensors, float tensors with a last axis [real, imaginary], or, from distributed
training, `weight_real`, `weight_imag`, `bias_real`, `bias_imag`. All three are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from models import statedict
from models.lift.backbones import BACKBONES
from models.lift.config import LIGHT, LiftConfig
from models.statedict import Axis, CheckpointError, Slot, Translation, axis_of, linear

BACKBONE, REFINER = "backbone.", "lead_refiner."
MIX = "mix_layer."
HINT = "check the hyper-parameters named above, and that this is a checkpoint of the official LIFT"


def translate(state: Mapping[str, Tensor], config: LiftConfig) -> Translation:
    """Official tensors -> ours. Raises CheckpointError naming missing, unexpected and contradicting tensors."""
    strangers = [name for name in state if not name.startswith((BACKBONE, REFINER))]
    if strangers:
        raise CheckpointError([f"{name}: unexpected" for name in strangers[:8]], HINT)
    inner = _backbone(_under(state, BACKBONE), config)
    own = statedict.translate(_split_complex(_under(state, REFINER)), _slots(config), HINT)
    taken = {f"backbone.{name}": tensor for name, tensor in inner.state.items()}
    taken |= {f"refiner.{name}": tensor for name, tensor in own.state.items()}
    dropped = [*(f"{BACKBONE}{name}" for name in inner.dropped), *(f"{REFINER}{name}" for name in own.dropped)]
    return Translation(taken, sorted(dropped))


def restore(state: Mapping[str, Tensor], config: LiftConfig) -> dict[str, Tensor]:
    """Ours -> the official state dict, the mixing layer as the complex64 tensors it is there."""
    inner = _backbone_restored(_under(state, "backbone."), config)
    own = statedict.restore(_under(state, "refiner."), _slots(config))
    for part in ("weight", "bias"):
        own[MIX + part] = torch.complex(own.pop(f"{MIX}{part}_real"), own.pop(f"{MIX}{part}_imag"))
    found = {f"{BACKBONE}{name}": tensor for name, tensor in inner.items()}
    return found | {f"{REFINER}{name}": tensor for name, tensor in own.items()}


def config_from_tensors(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """state_num, enc_in where it leaves a trace, and what the backbone's own tensors tell."""
    inner = _under(state, BACKBONE)
    found: dict[str, Any] = {"state_num": 1}
    if f"{REFINER}factory.basic_state" in state:
        found["enc_in"] = axis_of(state, f"{REFINER}factory.basic_state", 0)
        found["state_num"] = axis_of(state, f"{REFINER}factory.basic_state", 1)
    name = _recognise(inner)
    if name is None:
        return found
    own = BACKBONES[name].config_from_tensors(inner) if name != LIGHT else _light(inner)
    return {**own, **found, "model": name}


def _light(inner: Mapping[str, Tensor]) -> dict[str, Any]:
    return {"pred_len": axis_of(inner, "weight", 0), "seq_len": axis_of(inner, "weight", 1)}


def _recognise(inner: Mapping[str, Tensor]) -> str | None:
    """The backbone whose own tensors these are."""
    marks = {
        "weight": LIGHT,
        "Linear_Trend.weight": "DLinear",
        "Linear_Trend.0.weight": "DLinear",
        "model.backbone.W_P.weight": "PatchTST",
        "model_res.backbone.W_P.weight": "PatchTST",
        "enc_embedding.value_embedding.weight": "iTransformer",
        "Attentions_over_token.0.qkv.weight": "CARD",
        "model.Attentions_over_token.0.qkv.weight": "CARD",
    }
    return next((name for tensor, name in marks.items() if tensor in inner), None)


def _backbone(inner: Mapping[str, Tensor], config: LiftConfig) -> Translation:
    if config.backbone == LIGHT:
        return statedict.translate(inner, _light_slots(config), HINT)
    known = BACKBONES[config.backbone]
    return known.translate(inner, known.parse_config(config.inner))


def _backbone_restored(inner: Mapping[str, Tensor], config: LiftConfig) -> dict[str, Tensor]:
    if config.backbone == LIGHT:
        return statedict.restore(inner, _light_slots(config))
    known = BACKBONES[config.backbone]
    assert known.restore is not None
    return known.restore(inner, known.parse_config(config.inner))


def _light_slots(config: LiftConfig) -> list[Slot]:
    shape = linear("", "", (config.pred_len, "pred_len"), (config.seq_len, "seq_len"))
    return [Slot(s.official.removeprefix("."), s.official.removeprefix("."), s.axes) for s in shape]


def _under(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def _split_complex(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The mixing layer's tensors as real and imaginary part, whichever way they are stored."""
    found = dict(state)
    for part in ("weight", "bias"):
        tensor = found.get(MIX + part)
        if tensor is None:
            continue
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        if tensor.ndim and tensor.shape[-1] == 2:
            del found[MIX + part]
            found[f"{MIX}{part}_real"], found[f"{MIX}{part}_imag"] = tensor[..., 0], tensor[..., 1]
    return found


def _slots(config: LiftConfig) -> list[Slot]:
    frequencies: Axis = (config.frequencies, "pred_len")
    mixed: Axis = (3 * config.frequencies, "pred_len")
    slots = [Slot("temperature", "temperature", ((1, ""),))]
    for official, ours in (("real", "real"), ("imag", "imaginary")):
        slots.append(Slot(f"{MIX}weight_{official}", f"mix.weight_{ours}", (frequencies, mixed)))
        slots.append(Slot(f"{MIX}bias_{official}", f"mix.bias_{ours}", (frequencies,)))
    return slots + _factory_slots(config)


def _factory_slots(config: LiftConfig) -> list[Slot]:
    filters: Axis = (config.filters, "pred_len or leader_num")
    inputs: Axis = (config.leaders, "leader_num")
    if config.state_num == 1:
        return linear("factory.mix_head", "factory.mix", filters, inputs)
    states: Axis = (config.state_num, "state_num")
    return [
        Slot("factory.classifier.weight", "factory.classify.weight", (states, (config.seq_len, "seq_len"))),
        Slot("factory.basic_state", "factory.of_variate", ((config.enc_in, "enc_in"), states)),
        Slot("factory.bias", "factory.bias", (states,)),
        Slot(
            "factory.mix_head_w",
            "factory.mix_weight",
            (states, (config.leaders * config.filters, "pred_len or leader_num")),
        ),
        Slot("factory.mix_head_b", "factory.mix_bias", (states, filters)),
    ]
