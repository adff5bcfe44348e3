"""CARD's official state dict: which tensor is which, what is never read, and what its shapes and buffers tell.

Never read, and absent from our networks: batch counters; every attention's `mlp` (written by the l96 and m4 programs
only); `dp_k`/`dp_v` of token attention; whichever of `W_statistic` and `cls` use_statistic turns off. The `ema_matrix`
buffers follow from alpha: they are recomputed, and a stored one that disagrees is refused.
merge_size, stride and use_statistic leave no trace; nor does seq_len, since up to stride - 1 steps are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from models import statedict
from models.card.attention import smoothing_matrix
from models.card.config import CardConfig
from models.statedict import Axis, CheckpointError, Slot, Translation, axis_of, batch_norm, layer_count, linear

PREFIX = "model."
OVER_TOKENS, OVER_CHANNELS = "Attentions_over_token", "Attentions_over_channel"
HINT = "check the hyper-parameters named above, and that this is a checkpoint of the official CARD"
EMA_TOLERANCE = 1e-6  # float32 rounding of repeated products of numbers below 1


def translate(state: Mapping[str, Tensor], config: CardConfig) -> Translation:
    """Official tensors (with or without "model.") -> ours. Raises CheckpointError naming what contradicts."""
    named = {name.removeprefix(PREFIX): name for name in state}
    bare = {short: state[name] for short, name in named.items()}
    for stem in (OVER_TOKENS, OVER_CHANNELS):
        found = layer_count(bare, stem)
        if found != config.e_layers:
            raise CheckpointError([f"{stem}: {found} layers in the checkpoint, e_layers says {config.e_layers}"], HINT)
    taken = statedict.translate(bare, _slots(config), HINT)
    _check_smoothing(bare, config)
    return Translation(taken.state, sorted(named[short] for short in taken.dropped))


def restore(state: Mapping[str, Tensor], config: CardConfig) -> dict[str, Tensor]:
    """Ours -> the official state dict, smoothing buffers included."""
    slots = _slots(config)
    smoothing = smoothing_matrix(config)
    buffers = {slot.official: smoothing.clone() for slot in slots if slot.official.endswith(".ema_matrix")}
    return {f"{PREFIX}{name}": tensor for name, tensor in statedict.restore(state, slots, buffers).items()}


def config_from_tensors(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """The hyper-parameters that tensors settle: d_model, n_heads, d_ff, e_layers, patch_len, dp_rank, pred_len.

    Where an ema_matrix is stored also alpha, and enc_in if it exceeds tokens and dp_rank (else it leaves no trace).
    """
    bare = {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}
    attention = f"{OVER_CHANNELS}.0"
    d_model = axis_of(bare, "W_input_projection.weight", 0)
    head_dim = axis_of(bare, f"{attention}.dp_k.weight", 1)
    found = {
        "d_model": d_model,
        "n_heads": d_model // max(head_dim, 1),
        "d_ff": axis_of(bare, f"{attention}.ff_1.0.weight", 0),
        "e_layers": layer_count(bare, OVER_TOKENS),
        "patch_len": axis_of(bare, "W_input_projection.weight", 1),
        "dp_rank": axis_of(bare, f"{attention}.dp_k.weight", 0),
        "pred_len": axis_of(bare, "W_out.weight", 0),
    }
    return found | _from_smoothing(bare, rest=max(axis_of(bare, "W_pos_embed", 0) + 1, found["dp_rank"]))


def _from_smoothing(bare: Mapping[str, Tensor], rest: int) -> dict[str, Any]:
    matrix = bare.get(f"{OVER_CHANNELS}.0.ema_matrix")
    if matrix is None or matrix.ndim != 2 or min(matrix.shape) < 2:
        return {}
    alpha = float(f"{matrix[1, 1].item():.7g}")  # the decimal that was typed, not its float32 neighbour
    return {"alpha": alpha} | ({"enc_in": int(matrix.shape[0])} if matrix.shape[0] > rest else {})


def _check_smoothing(bare: Mapping[str, Tensor], config: CardConfig) -> None:
    expected = smoothing_matrix(config)
    stored = {name: tensor for name, tensor in bare.items() if name.endswith(".ema_matrix")}
    wrong = [n for n, t in stored.items() if not torch.allclose(t.float(), expected, rtol=0, atol=EMA_TOLERANCE)]
    if wrong:
        seen = float(stored[wrong[0]][1, 1])
        problem = (
            f"{wrong[0]}: smooths with {seen:.7g}, alpha says {config.alpha:g} ({len(wrong)} of {len(stored)} buffers)"
        )
        raise CheckpointError(
            [problem], "alpha must be the one of the training run; leave it out to take the stored one"
        )


def _slots(config: CardConfig) -> list[Slot]:
    d: Axis = (config.d_model, "d_model")
    statistic, leading = ("statistic", None) if config.use_statistic else (None, "leading")
    slots = linear("W_input_projection", "patch", d, (config.patch_len, "patch_len"))
    slots.append(Slot("W_pos_embed", "position", ((config.patches, "seq_len, patch_len or stride"), d)))
    slots += [*linear("W_statistic", statistic, d, (2, "")), Slot("cls", leading, ((1, ""), d))]
    for layer in range(config.e_layers):
        slots += _attention_slots(config, f"{OVER_CHANNELS}.{layer}", f"blocks.{layer}.over_channels", summarised=True)
        slots += _attention_slots(config, f"{OVER_TOKENS}.{layer}", f"blocks.{layer}.over_tokens", summarised=False)
        slots += linear(f"Attentions_mlp.{layer}", f"blocks.{layer}.mix", d, d)
        slots += batch_norm(f"Attentions_norm.{layer}", f"blocks.{layer}.norm", d)
    flat: Axis = (config.tokens * config.d_model, "seq_len, patch_len or stride (tokens x d_model)")
    return slots + linear("W_out", "head", (config.pred_len, "pred_len"), flat)


def _attention_slots(config: CardConfig, official: str, ours: str, *, summarised: bool) -> list[Slot]:
    d: Axis = (config.d_model, "d_model")
    rank, head = (config.dp_rank, "dp_rank"), (config.head_dim, "n_heads (d_model / n_heads)")
    side: Axis = (config.max_variates, "enc_in (the side is the largest of enc_in, tokens and dp_rank)")
    slots = linear(f"{official}.qkv", f"{ours}.qkv", (3 * config.d_model, "d_model"), d)
    slots += linear(f"{official}.mlp", None, d, d)
    for part, name in (("dp_k", "summarise_key"), ("dp_v", "summarise_value")):
        slots += linear(f"{official}.{part}", f"{ours}.{name}" if summarised else None, rank, head)
    for part, name in (("norm_post1", "norm_rows"), ("norm_post2", "norm_width"), ("norm_attn", "norm_out")):
        slots += batch_norm(f"{official}.{part}", f"{ours}.{name}", d)
    for part, name in (("ff_1", "ff_rows"), ("ff_2", "ff_width")):
        slots += linear(f"{official}.{part}.0", f"{ours}.{name}.0", (config.d_ff, "d_ff"), d)
        slots += linear(f"{official}.{part}.3", f"{ours}.{name}.2", d, (config.d_ff, "d_ff"))
    return [*slots, Slot(f"{official}.ema_matrix", None, (side, side))]
