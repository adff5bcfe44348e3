"""Official state dicts of EVA-CLIP, open_clip and CLIPSelf: which layout it is, and which tensor is which.

Rotary tables in EVA files (`*rope.freqs_*`) are never read: they follow from the grid.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from models import statedict
from models.clipself.config import ClipConfig, TextConfig, Variant, VisionConfig
from models.statedict import Axis, Slot, Translation, linear, norm

HINT = "check the configuration named above, and that this is an EVA-CLIP, open_clip or CLIPSelf checkpoint"


def variant_of(state: Mapping[str, Tensor], prefix: str = "visual.") -> Variant | None:
    """The image tower's layout, or None if this is no image tower."""
    if f"{prefix}blocks.0.attn.q_proj.weight" in state and f"{prefix}cls_token" in state:
        return "eva"
    if f"{prefix}conv1.weight" in state and f"{prefix}transformer.resblocks.0.attn.in_proj_weight" in state:
        return "openai"
    return None


def translate(state: Mapping[str, Tensor], config: ClipConfig) -> Translation:
    """Both towers, text at the root or under `text.` -> ours. Raises CheckpointError naming what contradicts."""
    text = "text." if any(name.startswith("text.") for name in state) else ""
    slots = [Slot("logit_scale", "logit_scale", ())]
    slots += vision_slots(config.vision, "visual.", "visual.", state)
    slots += text_slots(config.text, text, "text.")
    return reshaped(statedict.translate(state, slots, HINT))


def reshaped(taken: Translation) -> Translation:
    """EVA keeps a leading axis of one on its position table; ours has none."""
    state = {
        name: tensor[0] if name.endswith("visual.position") and tensor.ndim == 3 else tensor
        for name, tensor in taken.state.items()
    }
    return Translation(state, taken.dropped)


def vision_slots(config: VisionConfig, official: str, ours: str, state: Mapping[str, Tensor]) -> list[Slot]:
    """Expected tensors of an image tower behind two prefixes; state tells the rotary tables that may be there."""
    if config.variant == "openai":
        return _openai_slots(config, official, ours)
    tables = [name for name in state if name.startswith(official) and "rope.freqs_" in name]
    unread = [Slot(name, None, tuple((int(size), "") for size in state[name].shape)) for name in tables]
    return _eva_slots(config, official, ours) + unread


def _eva_slots(config: VisionConfig, official: str, ours: str) -> list[Slot]:
    d: Axis = (config.width, "width")
    hidden: Axis = (config.hidden, "width or mlp_ratio")
    patch: Axis = (config.patch_size, "patch_size")
    one: Axis = (1, "")
    slots = [
        Slot(f"{official}cls_token", f"{ours}leading", (one, one, d)),
        Slot(f"{official}pos_embed", f"{ours}position", (one, _positions(config), d)),
        Slot(f"{official}patch_embed.proj.weight", f"{ours}patch.weight", (d, (3, ""), patch, patch)),
        Slot(f"{official}patch_embed.proj.bias", f"{ours}patch.bias", (d,)),
    ]
    for i in range(config.layers):
        theirs, mine = f"{official}blocks.{i}", f"{ours}blocks.{i}"
        slots += norm(f"{theirs}.norm1", f"{mine}.norm1", d) + norm(f"{theirs}.norm2", f"{mine}.norm2", d)
        for part, name in (("q", "query"), ("k", "key"), ("v", "value")):
            slots.append(Slot(f"{theirs}.attn.{part}_proj.weight", f"{mine}.attention.{name}.weight", (d, d)))
        for part, name in (("q", "query"), ("v", "value")):
            slots.append(Slot(f"{theirs}.attn.{part}_bias", f"{mine}.attention.{name}.bias", (d,)))
        slots += norm(f"{theirs}.attn.inner_attn_ln", f"{mine}.attention.norm", d)
        slots += linear(f"{theirs}.attn.proj", f"{mine}.attention.out", d, d)
        slots += linear(f"{theirs}.mlp.w1", f"{mine}.mlp.gate", hidden, d)
        slots += linear(f"{theirs}.mlp.w2", f"{mine}.mlp.expand", hidden, d)
        slots += norm(f"{theirs}.mlp.ffn_ln", f"{mine}.mlp.norm", hidden)
        slots += linear(f"{theirs}.mlp.w3", f"{mine}.mlp.contract", d, hidden)
    slots += norm(f"{official}norm", f"{ours}norm", d)
    return slots + linear(f"{official}head", f"{ours}head", (config.embed_dim, "embed_dim"), d)


def _openai_slots(config: VisionConfig, official: str, ours: str) -> list[Slot]:
    d: Axis = (config.width, "width")
    patch: Axis = (config.patch_size, "patch_size")
    slots = [
        Slot(f"{official}class_embedding", f"{ours}leading", (d,)),
        Slot(f"{official}positional_embedding", f"{ours}position", (_positions(config), d)),
        Slot(f"{official}conv1.weight", f"{ours}patch.weight", (d, (3, ""), patch, patch)),
        Slot(f"{official}proj", f"{ours}projection", (d, (config.embed_dim, "embed_dim"))),
    ]
    slots += norm(f"{official}ln_pre", f"{ours}norm_in", d) + norm(f"{official}ln_post", f"{ours}norm", d)
    for i in range(config.layers):
        slots += _residual_slots(
            f"{official}transformer.resblocks.{i}", f"{ours}blocks.{i}", d, (config.hidden, "width or mlp_ratio")
        )
    return slots


def text_slots(config: TextConfig, official: str, ours: str) -> list[Slot]:
    """Expected tensors of a text tower behind two prefixes."""
    d: Axis = (config.width, "text width")
    slots = [
        Slot(f"{official}token_embedding.weight", f"{ours}embed.weight", ((config.vocab_size, "vocab_size"), d)),
        Slot(f"{official}positional_embedding", f"{ours}position", ((config.context_length, "context_length"), d)),
        Slot(f"{official}text_projection", f"{ours}projection", (d, (config.embed_dim, "embed_dim"))),
    ]
    slots += norm(f"{official}ln_final", f"{ours}norm", d)
    for i in range(config.layers):
        slots += _residual_slots(
            f"{official}transformer.resblocks.{i}", f"{ours}blocks.{i}", d, (4 * config.width, "text width")
        )
    return slots


def _residual_slots(official: str, ours: str, d: Axis, hidden: Axis) -> list[Slot]:
    three: Axis = (3 * d[0], d[1])
    slots = norm(f"{official}.ln_1", f"{ours}.norm1", d) + norm(f"{official}.ln_2", f"{ours}.norm2", d)
    slots.append(Slot(f"{official}.attn.in_proj_weight", f"{ours}.qkv.weight", (three, d)))
    slots.append(Slot(f"{official}.attn.in_proj_bias", f"{ours}.qkv.bias", (three,)))
    slots += linear(f"{official}.attn.out_proj", f"{ours}.out", d, d)
    slots += linear(f"{official}.mlp.c_fc", f"{ours}.expand", hidden, d)
    return slots + linear(f"{official}.mlp.c_proj", f"{ours}.contract", d, hidden)


def _positions(config: VisionConfig) -> Axis:
    return (1 + config.grid**2, "image_size or patch_size")
