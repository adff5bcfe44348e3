"""ARM's official state dict: which tensor is which, and which never reach a forecast.

Never read: everything of a kernel-smoothing block but its two projections; the experts' switch where there is one
expert; level, scale and experts where they are switched off; smoothing blocks that are switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from models import statedict
from models.arm.config import ArmConfig
from models.arm.normalisation import WINDOWS
from models.arm.predictors import PREDICTORS
from models.arm.transformer import LATENT
from models.statedict import Axis, Slot, Translation, axis_of, layer_count, linear, norm

EXPERTS = "MoE_init.0"
HINT = "check the hyper-parameters named above, and that this is a checkpoint of the official ARM"


def translate(state: Mapping[str, Tensor], config: ArmConfig) -> Translation:
    """Official tensors -> ours. Raises CheckpointError naming missing, unexpected and contradicting tensors."""
    taken = statedict.translate(state, _slots(config), HINT)
    flat = {name: tensor.squeeze(-1) if _is_convolution(name) else tensor for name, tensor in taken.state.items()}
    return Translation(flat, taken.dropped)


def restore(state: Mapping[str, Tensor], config: ArmConfig) -> dict[str, Tensor]:
    """Ours -> the official state dict."""
    return statedict.restore(state, _slots(config))


def config_from_tensors(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """enc_in, pred_len, seq_len, n_experts; for the built-in predictor d_model and time_emb_dim too."""
    steps = axis_of(state, f"{EXPERTS}.experts.0.layer1.weight", 1)
    horizon = axis_of(state, f"{EXPERTS}.experts.0.layer2.weight", 0)
    found: dict[str, Any] = {
        "enc_in": axis_of(state, "channel_w", 0),
        "pred_len": horizon,
        "seq_len": steps - horizon,
        "n_experts": layer_count(state, f"{EXPERTS}.experts"),
    }
    if "pos_emb" in state:
        found["d_model"] = axis_of(state, "pos_emb", 2)
        found["time_emb_dim"] = axis_of(state, "enc_in_proj.weight", 1) - found["enc_in"]
        return found
    found["predictor_mkls_flag"] = "output_proj.weight" in state
    if found["predictor_mkls_flag"]:
        found["d_model"] = axis_of(state, "output_proj.weight", 1)
    found["predictor"] = "DLinear" if any("Linear_Trend" in name for name in state) else "PatchTST"
    return found


def _is_convolution(name: str) -> bool:
    return name.endswith(("expand.weight", "contract.weight")) and name.startswith("predictor.")


def _slots(config: ArmConfig) -> list[Slot]:
    n: Axis = (config.enc_in, "enc_in")
    slots = [
        Slot("ema_alpha", "norm.alpha", (n,)),
        Slot("std_weights", "norm.window_weights", ((len(WINDOWS) + 1, ""), n)),
        Slot("channel_w", "norm.weight", (n,)),
        Slot("channel_b", "norm.bias", (n,)),
    ]
    slots += _expert_slots(config)
    return slots + (_built_in_slots(config, n) if config.built_in else _wrapped_slots(config, n))


def _expert_slots(config: ArmConfig) -> list[Slot]:
    steps: Axis = (config.steps, "seq_len or pred_len")
    wide: Axis = (4 * config.steps, "seq_len or pred_len")
    slots = linear(f"{EXPERTS}.switch", "experts.switch", (config.n_experts, "n_experts"), steps)
    horizon: Axis = (config.pred_len, "pred_len")
    for i in range(config.n_experts):
        slots += linear(f"{EXPERTS}.experts.{i}.layer1", f"experts.experts.{i}.expand", wide, steps)
        slots += linear(f"{EXPERTS}.experts.{i}.layer2", f"experts.experts.{i}.contract", horizon, wide)
    return slots


def _built_in_slots(config: ArmConfig, n: Axis) -> list[Slot]:
    d: Axis = (config.d_model, "d_model")
    one: Axis = (1, "")
    slots = linear("enc_in_proj", "predictor.embed", d, (config.enc_in + config.time_emb_dim, "enc_in or time_emb_dim"))
    slots += linear("output_proj", "predictor.head", n, d)
    slots += [
        Slot("task_emb_input_part", "predictor.history_part", (one, one, d)),
        Slot("task_emb_pred_part", "predictor.horizon_part", (one, one, d)),
        Slot("pos_emb", "predictor.position", (one, (config.steps, "seq_len or pred_len"), d)),
    ]
    for official, ours in (("pre", "input"), ("post", "encoder")):
        slots += _smoothing_slots(config, f"encoder_{official}_mkls", f"predictor.smooth_{ours}", config.d_model)
    slots += _smoothing_slots(config, "decoder_post_mkls", "predictor.smooth_decoder", config.d_model)
    for official, ours in (("encoder1", "encoder1"), ("encoder2", "encoder2"), ("decoder1", "decoder")):
        slots += _layer_slots(config, official, f"predictor.{ours}", d)
    return slots


def _wrapped_slots(config: ArmConfig, n: Axis) -> list[Slot]:
    slots = PREDICTORS[config.predictor].slots(config, "Predictor.", "predictor.predictor.")
    if config.mixtures:
        slots += linear("enc_in_proj", "predictor.mix", (config.mixtures, "d_model - enc_in"), n)
        slots += linear("output_proj", "predictor.head", n, (config.d_model, "d_model"))
        for official, ours in (("pre", "input"), ("post", "output")):
            slots += _smoothing_slots(config, f"encoder_{official}_mkls", f"predictor.smooth_{ours}", config.mixtures)
    return slots


def _smoothing_slots(config: ArmConfig, official: str, ours: str, size: int) -> list[Slot]:
    """The two projections that are read, and all the rest of the block that is not."""
    width, inner = (size, "d_model"), (min(size, LATENT), "d_model")
    slots = linear(f"{official}.input_proj", f"{ours}.narrow", inner, width)
    slots += linear(f"{official}.output_proj", f"{ours}.widen", width, inner)
    kernels: Axis = (len(WINDOWS), "")
    for i, window in enumerate(WINDOWS):
        slots.append(Slot(f"{official}.convs.{i}.weight", None, (inner, inner, (window, ""))))
        slots.append(Slot(f"{official}.convs.{i}.bias", None, (inner,)))
    slots += linear(f"{official}.V", None, kernels, inner)
    for part in ("kernel_weights", "kernel_weight_bias"):
        slots.append(Slot(f"{official}.{part}", None, (kernels,)))
    for part in ("WQ", "WK"):
        slots += [Slot(f"{official}.{part}_w", None, (inner, inner)), Slot(f"{official}.{part}_b", None, (inner,))]
    return [*slots, Slot(f"{official}.pos_emb.emb.weight", None, ((config.steps, "seq_len or pred_len"), inner))]


def _layer_slots(config: ArmConfig, official: str, ours: str, d: Axis) -> list[Slot]:
    inner: Axis = (config.n_heads * (config.d_model // config.n_heads), "n_heads")
    wide: Axis = (4 * config.d_model, "d_model")
    slots: list[Slot] = []
    for part in ("query", "key", "value"):
        slots += linear(f"{official}.attention.{part}_projection", f"{ours}.{part}", inner, d)
    slots += linear(f"{official}.attention.out_projection", f"{ours}.out", d, inner)
    for name, part, out, inp in (("conv1", "expand", wide, d), ("conv2", "contract", d, wide)):
        slots.append(Slot(f"{official}.{name}.weight", f"{ours}.{part}.weight", (out, inp, (1, ""))))
        slots.append(Slot(f"{official}.{name}.bias", f"{ours}.{part}.bias", (out,)))
    slots += norm(f"{official}.norm2", f"{ours}.norm_attention", d)
    slots += norm(f"{official}.norm4", f"{ours}.norm_out", d)
    return [*slots, Slot(f"{official}.fuse_beta", f"{ours}.fuse", ((1, ""),))]
