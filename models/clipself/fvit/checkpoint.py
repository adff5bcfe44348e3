"""F-ViT's official state dict (MMDetection names). Never read: `fc_cls`, rotary tables, batch counters.

`all_embeddings` [E, C + 1] holds the label embeddings of the training run; they are data, not weights: `embeddings`.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from models import statedict
from models.clipself.checkpoint import reshaped, vision_slots
from models.clipself.fvit.config import FvitConfig
from models.clipself.fvit.head import SIDE
from models.statedict import Axis, Slot, Translation, linear, norm

HINT = "check the configuration named above, and that this is a checkpoint of CLIPSelf's F-ViT"
_HEAD = "roi_head.bbox_head."
_UNREAD = (f"{_HEAD}fc_cls.", f"{_HEAD}all_embeddings")


def translate(state: Mapping[str, Tensor], config: FvitConfig) -> Translation:
    """Official tensors -> ours. Raises CheckpointError naming what contradicts."""
    slots = vision_slots(config.vision, "backbone.visual.", "backbone.visual.", state)
    slots += _backbone_slots(config) + _neck_slots(config) + _proposal_slots(config) + _head_slots(config)
    slots += [Slot(name, None, _shape(state[name])) for name in state if name.startswith(_UNREAD)]
    taken = reshaped(statedict.translate(state, slots, HINT))
    if config.head.detector_temperature is not None:
        temperature = next(iter(taken.state.values())).new_tensor(config.head.detector_temperature)
        return Translation({**taken.state, "head.temperature": temperature}, taken.dropped)
    return taken


def embeddings(state: Mapping[str, Tensor]) -> Tensor:
    """The training run's label embeddings [C + 1, E], the background's last."""
    return state[f"{_HEAD}all_embeddings"].T.float().contiguous()


def _backbone_slots(config: FvitConfig) -> list[Slot]:
    d: Axis = (config.vision.width, "width")
    two: Axis = (2, "")
    slots: list[Slot] = []
    for official, ours in (
        ("interpolate1.0", "enlarge4.0"),
        ("interpolate1.3", "enlarge4.3"),
        ("interpolate2.0", "enlarge2"),
    ):
        slots.append(Slot(f"backbone.{official}.weight", f"backbone.{ours}.weight", (d, d, two, two)))
        slots.append(Slot(f"backbone.{official}.bias", f"backbone.{ours}.bias", (d,)))
    return slots + _batch_norm("backbone.interpolate1.1", "backbone.enlarge4.1", d)


def _neck_slots(config: FvitConfig) -> list[Slot]:
    d: Axis = (config.vision.width, "width")
    c: Axis = (config.channels, "fpn_channels")
    slots: list[Slot] = []
    for i in range(4):
        slots += _conv(f"neck.lateral_convs.{i}", f"pyramid.lateral.{i}", c, d, 1)
        slots += _conv(f"neck.fpn_convs.{i}", f"pyramid.smooth.{i}", c, c, 3)
    return slots


def _proposal_slots(config: FvitConfig) -> list[Slot]:
    c: Axis = (config.channels, "fpn_channels")
    boxes, one = len(config.scales) * len(config.ratios), (1, "")
    slots: list[Slot] = []
    for i in range(config.proposals.convs):
        slots += _conv(f"rpn_head.rpn_conv.{i}", f"proposals.convs.{i}", c, c, 3, norm=config.proposals.norm)
    for official, ours, count in (("rpn_cls", "score", boxes), ("rpn_reg", "delta", 4 * boxes)):
        out: Axis = (count, "anchor scales and ratios")
        slots.append(Slot(f"rpn_head.{official}.weight", f"proposals.{ours}.weight", (out, c, one, one)))
        slots.append(Slot(f"rpn_head.{official}.bias", f"proposals.{ours}.bias", (out,)))
    return slots


def _head_slots(config: FvitConfig) -> list[Slot]:
    head = config.head
    fc: Axis = (head.fc_channels, "fc_out_channels")
    slots: list[Slot] = []
    channels: Axis = (config.channels, "fpn_channels")
    for i in range(head.convs):
        out: Axis = (config.head_channels, "head_conv_channels")
        slots += _conv(f"{_HEAD}shared_convs.{i}", f"head.convs.{i}", out, channels, 3)
        channels = out
    inputs: Axis = (channels[0] * SIDE * SIDE, channels[1])
    for official, ours, count in (
        ("shared_fcs", "shared", head.shared_fcs),
        ("cls_fcs", "of_class", head.class_fcs),
        ("reg_fcs", "of_box", head.box_fcs),
    ):
        for i in range(count):
            wide = inputs if official == "shared_fcs" and i == 0 else fc
            slots += linear(f"{_HEAD}{official}.{i}", f"head.{ours}.{i}", fc, wide)
    slots += linear(f"{_HEAD}fc_reg", "head.delta", (4, ""), fc)
    learned = head.detector_temperature is None
    return [*slots, Slot(f"{_HEAD}detect_temperature", "head.temperature" if learned else None, ())]


def _conv(official: str, ours: str, out: Axis, inp: Axis, size: int, *, norm: bool = True) -> list[Slot]:
    side: Axis = (size, "")
    slots = [Slot(f"{official}.conv.weight", f"{ours}.conv.weight", (out, inp, side, side))]
    if norm:
        return slots + _batch_norm(f"{official}.bn", f"{ours}.norm", out)
    return [*slots, Slot(f"{official}.conv.bias", f"{ours}.conv.bias", (out,))]


def _batch_norm(official: str, ours: str, width: Axis) -> list[Slot]:
    slots = norm(official, ours, width)
    slots += [Slot(f"{official}.{part}", f"{ours}.{part}", (width,)) for part in ("running_mean", "running_var")]
    return [*slots, Slot(f"{official}.num_batches_tracked", None, ())]


def _shape(tensor: Tensor) -> tuple[Axis, ...]:
    return tuple((int(size), "") for size in tensor.shape)
