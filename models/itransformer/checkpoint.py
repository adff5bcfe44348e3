"""iTransformer's official state dict: which tensor is which, and what its shapes say about the hyper-parameters.

The official file holds 6 + 16 tensors a layer, all read. The two convolutions of width 1 are linear maps here.
The number of heads, the activation and use_norm leave no trace in the tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from models import statedict
from models.itransformer.config import ITransformerConfig
from models.statedict import Axis, CheckpointError, Slot, Translation, axis_of, layer_count, linear, norm

LAYERS = "encoder.attn_layers"
HINT = "check the hyper-parameters named above, and that this is a checkpoint of the official iTransformer"


def translate(state: Mapping[str, Tensor], config: ITransformerConfig) -> Translation:
    """Official tensors -> ours. Raises CheckpointError naming missing, unexpected and contradicting tensors."""
    found = layer_count(state, LAYERS)
    if found != config.e_layers:
        raise CheckpointError([f"{LAYERS}: {found} layers in the checkpoint, e_layers says {config.e_layers}"], HINT)
    taken = statedict.translate(state, _slots(config), HINT)
    flat = {name: tensor.squeeze(-1) if tensor.ndim == 3 else tensor for name, tensor in taken.state.items()}
    return Translation(flat, taken.dropped)


def restore(state: Mapping[str, Tensor], config: ITransformerConfig) -> dict[str, Tensor]:
    """Ours -> the official state dict."""
    return statedict.restore(state, _slots(config))


def config_from_tensors(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """The hyper-parameters that tensor shapes settle: seq_len, pred_len, d_model, d_ff, e_layers."""
    return {
        "seq_len": axis_of(state, "enc_embedding.value_embedding.weight", 1),
        "d_model": axis_of(state, "enc_embedding.value_embedding.weight", 0),
        "pred_len": axis_of(state, "projector.weight", 0),
        "e_layers": layer_count(state, LAYERS),
        "d_ff": axis_of(state, f"{LAYERS}.0.conv1.weight", 0),
    }


def _slots(config: ITransformerConfig) -> list[Slot]:
    d_model: Axis = (config.d_model, "d_model")
    slots = linear("enc_embedding.value_embedding", "embed", d_model, (config.seq_len, "seq_len"))
    for layer in range(config.e_layers):
        slots += _layer_slots(config, f"{LAYERS}.{layer}", f"layers.{layer}", d_model)
    slots += norm("encoder.norm", "norm", d_model)
    return slots + linear("projector", "head", (config.pred_len, "pred_len"), d_model)


def _layer_slots(config: ITransformerConfig, official: str, ours: str, d_model: Axis) -> list[Slot]:
    inner: Axis = (config.n_heads * config.head_dim, "n_heads")
    slots: list[Slot] = []
    for part in ("query", "key", "value"):
        slots += linear(f"{official}.attention.{part}_projection", f"{ours}.attention.{part}", inner, d_model)
    slots += linear(f"{official}.attention.out_projection", f"{ours}.attention.out", d_model, inner)
    slots += _convolution(f"{official}.conv1", f"{ours}.expand", (config.d_ff, "d_ff"), d_model)
    slots += _convolution(f"{official}.conv2", f"{ours}.contract", d_model, (config.d_ff, "d_ff"))
    return (
        slots
        + norm(f"{official}.norm1", f"{ours}.norm1", d_model)
        + norm(f"{official}.norm2", f"{ours}.norm2", d_model)
    )


def _convolution(official: str, ours: str, out: Axis, inp: Axis) -> list[Slot]:
    weight, bias = linear(official, ours, out, inp)
    return [Slot(weight.official, weight.ours, (*weight.axes, (1, ""))), bias]
