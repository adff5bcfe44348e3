"""PatchTST's official state dict, behind any prefix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from models import statedict
from models.patchtst.config import PatchTSTConfig
from models.statedict import Axis, Slot, Translation, axis_of, batch_norm, layer_count, linear

HINT = "check the hyper-parameters named above, and that this is a checkpoint of PatchTST's supervised program"

_PLAIN, _DECOMPOSED = ("model",), ("model_res", "model_trend")


def translate(state: Mapping[str, Tensor], config: PatchTSTConfig) -> Translation:
    """Official tensors -> ours. Raises CheckpointError naming missing, unexpected and contradicting tensors."""
    return statedict.translate(state, slots(config), HINT)


def restore(state: Mapping[str, Tensor], config: PatchTSTConfig) -> dict[str, Tensor]:
    """Ours -> the official state dict."""
    return statedict.restore(state, slots(config))


def slots(config: PatchTSTConfig, official: str = "", ours: str = "") -> list[Slot]:
    """Expected tensors; `official` and `ours` are prefixes, both empty or ending in a dot."""
    found = []
    for i, part in enumerate(_DECOMPOSED if config.decomposition else _PLAIN):
        found += _part(config, f"{official}{part}", f"{ours}parts.{i}")
    return found


def config_from_tensors(state: Mapping[str, Tensor], prefix: str = "") -> dict[str, Any]:
    """pred_len, d_model, d_ff, e_layers, patch_len, decomposition, affine, individual; enc_in where it leaves a trace.

    seq_len, stride and padding_patch leave only the number of patches; n_heads leaves the scale of attention.
    """
    decomposed = any(name.startswith(f"{prefix}model_res.") for name in state)
    part = f"{prefix}{(_DECOMPOSED if decomposed else _PLAIN)[0]}"
    layers, individual = f"{part}.backbone.encoder.layers", f"{part}.head.linears.0.weight" in state
    head = f"{part}.head.linears.0.weight" if individual else f"{part}.head.linear.weight"
    found: dict[str, Any] = {
        "pred_len": axis_of(state, head, 0),
        "d_model": axis_of(state, f"{part}.backbone.W_P.weight", 0),
        "patch_len": axis_of(state, f"{part}.backbone.W_P.weight", 1),
        "e_layers": layer_count(state, layers),
        "d_ff": axis_of(state, f"{layers}.0.ff.0.weight", 0),
        "decomposition": decomposed,
        "individual": individual,
        "affine": f"{part}.revin_layer.affine_weight" in state,
    }
    if found["affine"]:
        found["enc_in"] = axis_of(state, f"{part}.revin_layer.affine_weight", 0)
    return found


def _part(config: PatchTSTConfig, official: str, ours: str) -> list[Slot]:
    d, patches = (config.d_model, "d_model"), (config.patches, "seq_len, patch_len, stride or padding_patch")
    variates: Axis = (config.enc_in, "enc_in")
    slots = linear(f"{official}.backbone.W_P", f"{ours}.embed", d, (config.patch_len, "patch_len"))
    slots.append(Slot(f"{official}.backbone.W_pos", f"{ours}.position", (patches, d)))
    if config.revin and config.affine:
        slots += [
            Slot(f"{official}.revin_layer.affine_{part}", f"{ours}.norm.{part}", (variates,))
            for part in ("weight", "bias")
        ]
    for layer in range(config.e_layers):
        slots += _layer(config, f"{official}.backbone.encoder.layers.{layer}", f"{ours}.layers.{layer}", d)
    flat: Axis = (config.patches * config.d_model, "d_model x patches")
    for i in range(config.enc_in if config.individual else 1):
        head = f"{official}.head.linears.{i}" if config.individual else f"{official}.head.linear"
        slots += linear(head, f"{ours}.heads.{i}", (config.pred_len, "pred_len"), flat)
    return slots


def _layer(config: PatchTSTConfig, official: str, ours: str, d: Axis) -> list[Slot]:
    inner: Axis = (config.n_heads * config.head_dim, "n_heads")
    slots: list[Slot] = []
    for name, part in (("W_Q", "query"), ("W_K", "key"), ("W_V", "value")):
        slots += linear(f"{official}.self_attn.{name}", f"{ours}.attention.{part}", inner, d)
    slots += linear(f"{official}.self_attn.to_out.0", f"{ours}.attention.out", d, inner)
    slots.append(Slot(f"{official}.self_attn.sdp_attn.scale", f"{ours}.attention.scale", ()))
    slots += linear(f"{official}.ff.0", f"{ours}.expand", (config.d_ff, "d_ff"), d)
    slots += linear(f"{official}.ff.3", f"{ours}.contract", d, (config.d_ff, "d_ff"))
    slots += batch_norm(f"{official}.norm_attn", f"{ours}.norm_attention", d)
    return slots + batch_norm(f"{official}.norm_ffn", f"{ours}.norm_feed_forward", d)
