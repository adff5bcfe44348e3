"""Hawk: a gated linear recurrence in place of attention (De et al., Griffin, 2024), as femr >= 0.2.4 uses it.

In and out float32 [B, L, D], one patient a row; the state starts anew with every row.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.motor.config import LONGEST

WIDTH = 4  # steps the convolution sees
SHARPNESS = 8.0


class GateMap(nn.Module):
    """An affine map within each head: [..., D] -> [..., D]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.zeros(heads, width // heads, width // heads))
        self.bias = nn.Parameter(torch.zeros(heads, width // heads))

    def forward(self, x: Tensor) -> Tensor:
        parts = x.reshape(*x.shape[:-1], self.heads, -1)
        return (torch.einsum("...hi,hij->...hj", parts, self.weight) + self.bias).flatten(-2)


class Hawk(nn.Module):
    """Convolution and recurrence on one branch, a gate on the other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.value, self.gate, self.out = (nn.Linear(width, width) for _ in range(3))
        self.kernel = nn.Parameter(torch.zeros(WIDTH, width))
        self.kernel_bias = nn.Parameter(torch.zeros(width))
        self.decay = nn.Parameter(torch.zeros(width))
        self.input_gate, self.decay_gate = GateMap(width, heads), GateMap(width, heads)

    def forward(self, x: Tensor) -> Tensor:
        gated: Tensor = self.recur(self.convolve(self.value(x))) * functional.gelu(self.gate(x), approximate="tanh")
        out: Tensor = self.out(gated)
        return out

    def convolve(self, x: Tensor) -> Tensor:
        """Causal, each channel by itself; the kernel's last row meets the newest step."""
        padded = functional.pad(x, (0, 0, WIDTH - 1, 0))
        steps = x.shape[1]
        return sum((padded[:, i : i + steps] * self.kernel[i] for i in range(WIDTH)), self.kernel_bias)

    def recur(self, x: Tensor) -> Tensor:
        """h = a h' + sqrt(1 - a^2) (gate x), a in (0, 1) by channel and step; the first step takes its input whole."""
        log_a = -SHARPNESS * torch.sigmoid(self.decay_gate(x)) * functional.softplus(self.decay)
        entering = torch.sigmoid(self.input_gate(x)) * x
        first = (torch.arange(x.shape[1], device=x.device) == 0).reshape(1, -1, 1)
        scale = torch.where(first, 1.0, torch.sqrt(1 - torch.exp(2 * log_a)))
        return _scan(torch.exp(log_a), scale * entering)


def _scan(kept: Tensor, added: Tensor) -> Tensor:
    """h = kept h' + added along steps, by doubling: after round i every step holds the last 2^i; [B, L, D] each.

    As many rounds as LONGEST steps need, so that the computation has one shape for all lengths.
    """
    step = torch.arange(added.shape[1], device=added.device)
    for i in range(LONGEST.bit_length() - 1):
        back = step - 2**i
        there, place = (back >= 0).reshape(1, -1, 1), back.clamp(min=0)
        added = added + torch.where(there, kept * added[:, place], 0.0)
        kept = torch.where(there, kept * kept[:, place], 0.0)
    return added
