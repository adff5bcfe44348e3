"""Both towers and the scale of their similarity."""

from __future__ import annotations

import torch
from torch import nn

from models.clipself.config import ClipConfig, VisionConfig
from models.clipself.eva import EvaTower
from models.clipself.openai import OpenAiTower
from models.clipself.text import TextTower


class Clip(nn.Module):
    """visual, text, and logit_scale: the logarithm of what cosines are multiplied by."""

    def __init__(self, config: ClipConfig) -> None:
        super().__init__()
        self.config = config
        self.visual = build_tower(config.vision)
        self.text = TextTower(config.text)
        self.logit_scale = nn.Parameter(torch.zeros(()))


def build_tower(config: VisionConfig) -> EvaTower | OpenAiTower:
    """The image tower of a configuration, untrained."""
    return EvaTower(config) if config.variant == "eva" else OpenAiTower(config)


def build(config: ClipConfig) -> Clip:
    """Both towers, untrained, in evaluation mode, ready for `load_state_dict`."""
    return Clip(config).eval().requires_grad_(False)
