"""MOTOR: a transformer over a patient's events that predicts times to events (Steinberg et al., ICLR 2024).

In   tokens   int64 [B, L, K]    ids of each position's bag, padded with 0 (weight 0); flat vocabularies: K = 1
     weights  float32 [B, L, K]
     ages     float32 [B, L]     days since birth
     times    float32 [B, L, M]  standardised time channels, or None where the network reads none
Out  float32 [B, L, D]           representations; position i depends on positions up to i only
One patient a row, oldest event first, padding at the end: attention is causal, so padding is never seen.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.motor.config import MotorConfig
from models.motor.head import Head
from models.motor.layers import Block, RmsNorm, Rotation, local_mask


class Motor(nn.Module):
    """Embedded bags through blocks; `head` makes hazards of the representations."""

    def __init__(self, config: MotorConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Parameter(torch.zeros(config.vocab_size, config.hidden))
        self.norm_in = RmsNorm(config.hidden, config.epsilon)
        self.blocks = nn.ModuleList(Block(config, i) for i in range(config.layers))
        self.norm_out = RmsNorm(config.hidden, config.epsilon)
        self.head = Head(config)

    def forward(self, tokens: Tensor, weights: Tensor, ages: Tensor, times: Tensor | None = None) -> Tensor:
        x = self.norm_in((self.embed[tokens] * weights.unsqueeze(-1)).sum(dim=2))
        rotation = Rotation(ages, self.config.hidden // self.config.heads)
        mask = None if self.config.banded else local_mask(ages.shape[1], self.config.window, ages.device)
        channels = times if self.config.time_channels else None
        for block in self.blocks:
            x = block(x, channels, rotation, mask)
        representations: Tensor = self.norm_out(x)
        return representations


def build(config: MotorConfig) -> Motor:
    """An untrained network in evaluation mode, ready for `load_state_dict`."""
    return Motor(config).eval().requires_grad_(False)
