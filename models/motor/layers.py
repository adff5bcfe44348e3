"""MOTOR's blocks: local attention over age-rotated positions, beside a feed-forward map (parallel, one residual).

Letters: B patients, L positions, D hidden, h heads of width d.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.motor.config import MotorConfig
from models.motor.hawk import Hawk

BLOCK = 128  # queries that share their keys in banded attention


class RmsNorm(nn.Module):
    """x / sqrt(mean of squares + epsilon), scaled."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.epsilon) * self.weight


class Rotation:
    """Cosine and sine of age times frequency, [B, 1, L, d / 2] each.

    Frequencies fall from 1 to 1e-8 a day; ages reach 40,000 days, so angles are float32 (half precision turns 36,500.3
    days into 36,512).
    """

    def __init__(self, ages: Tensor, head_width: int) -> None:
        frequencies = 1.0 / (10000 ** torch.linspace(0, 2, head_width // 2, device=ages.device))
        angles = (ages.float().unsqueeze(-1) * frequencies).unsqueeze(1)
        self.cosine, self.sine = angles.cos(), angles.sin()

    def apply_to(self, x: Tensor) -> Tensor:
        """Turn neighbouring pairs of the last axis; x [B, h, L, d]."""
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        first, second = pairs[..., 0], pairs[..., 1]
        turned = (first * self.cosine - second * self.sine, second * self.cosine + first * self.sine)
        return torch.stack(turned, dim=-1).reshape(x.shape)


def local_mask(length: int, window: int, device: torch.device) -> Tensor:
    """bool [L, L]: position i sees i - window + 1 .. i."""
    steps = torch.arange(length, device=device)
    back = steps.unsqueeze(1) - steps.unsqueeze(0)
    return (back >= 0) & (back < window)


def banded_attention(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Attention over the same keys, [B, h, L, d] -> [B, h, L, d], in memory that grows with L and not with its square.

    Queries go in blocks of BLOCK; each block meets its own keys and those of the blocks its window reaches back to.
    """
    batch, heads, length, width = q.shape
    reached = -(-(window - 1) // BLOCK)
    filled = (0, 0, 0, -length % BLOCK)
    blocks = (length + filled[3]) // BLOCK
    q = functional.pad(q, filled).reshape(batch * heads, -1, BLOCK, width)
    k, v = (_reached(part, reached, blocks, filled[3]) for part in (k, v))
    place = torch.arange(BLOCK * (reached + 1), device=q.device) - BLOCK * reached  # of a key, within its query's block
    back = torch.arange(BLOCK, device=q.device).unsqueeze(1) - place
    begins = BLOCK * torch.arange(blocks, device=q.device).reshape(-1, 1, 1)
    mask = (back >= 0) & (back < window) & (begins + place >= 0)
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return mixed.reshape(batch, heads, -1, width)[:, :, :length]


def _reached(part: Tensor, reached: int, blocks: int, filled: int) -> Tensor:
    """Keys or values [B, h, L, d] -> those each block of queries meets, [B h, blocks, BLOCK (reached + 1), d]."""
    batch, heads, _, width = part.shape
    part = functional.pad(part, (0, 0, BLOCK * reached, filled))
    shifted = [part[:, :, BLOCK * i : BLOCK * (i + blocks)] for i in range(reached + 1)]
    return torch.cat([one.reshape(batch * heads, -1, BLOCK, width) for one in shifted], dim=2)


class Block(nn.Module):
    """Norm, then attention (or Hawk) and feed-forward map side by side, then one map back."""

    def __init__(self, config: MotorConfig, index: int) -> None:
        super().__init__()
        self.config = config
        width, wide = config.hidden, config.intermediate
        self.recurrent = config.layout == "v2" and index % 2 == 0
        inputs = width + (2 * config.time_channels if config.ages == "append" else 0)
        self.norm = RmsNorm(width, config.epsilon)
        self.expand = nn.Linear(inputs, wide * (2 if config.activation == "swiglu" else 1), bias=config.bias)
        self.contract = nn.Linear(width + wide, width, bias=config.bias)
        if self.recurrent:
            self.hawk = Hawk(width, config.heads)
        else:
            self.qkv = nn.Linear(inputs, 3 * width, bias=config.bias)

    def forward(self, x: Tensor, times: Tensor | None, rotation: Rotation, mask: Tensor | None) -> Tensor:
        """x [B, L, D], times [B, L, time_channels] or None -> x plus what the block adds."""
        y = self.with_times(self.norm(x), times)
        mixed = self.hawk(y) if self.recurrent else self.attend(y, rotation, mask)
        added: Tensor = self.contract(torch.cat([mixed, self.activate(self.expand(y))], dim=-1))
        return x + added

    def with_times(self, y: Tensor, times: Tensor | None) -> Tensor:
        if times is None:
            return y
        channels = times if self.recurrent else torch.cat([times, times.square()], dim=-1)
        kept = y if self.config.ages == "append" else y[..., : -channels.shape[-1]]
        return torch.cat([kept, channels], dim=-1)

    def attend(self, y: Tensor, rotation: Rotation, mask: Tensor | None) -> Tensor:
        """mask: of all positions against all; None: banded."""
        heads = self.config.heads
        q, k, v = (part.reshape(*part.shape[:2], heads, -1).transpose(1, 2) for part in self.qkv(y).chunk(3, dim=-1))
        q, k = rotation.apply_to(q), rotation.apply_to(k)
        if mask is None:
            mixed = banded_attention(q, k, v, self.config.window)
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return mixed.transpose(1, 2).flatten(2)

    def activate(self, wide: Tensor) -> Tensor:
        if self.config.activation == "swiglu":
            gate, value = wide.chunk(2, dim=-1)
            return functional.silu(gate) * value
        return functional.gelu(wide, approximate="tanh" if self.config.activation == "gelu_tanh" else "none")
