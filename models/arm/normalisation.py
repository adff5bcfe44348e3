"""ARM's adaptive level and scale of a window (Lu et al., ICLR 2024, section 3.1, appendix A.4)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WINDOWS = (49, 145, 385)  # steps, besides the whole window
FLOOR = 1e-6  # added to the scale
SMALLEST, LARGEST = 1e-4, 5000.0  # of the scale, before the floor
ALPHA = (1e-6, 1 - 1e-6)  # a learned smoothing factor is kept inside


class AdaptiveNorm(nn.Module):
    """Exponential mean and multi-window deviation of a history [B, L, N], and the learned affine map after them."""

    def __init__(self, variates: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((variates,), 0.9))
        self.window_weights = nn.Parameter(torch.ones(len(WINDOWS) + 1, variates))
        self.weight = nn.Parameter(torch.ones(variates))
        self.bias = nn.Parameter(torch.zeros(variates))
        self.level = Level()
        self.scale = Scale()

    def statistics(self, history: Tensor) -> tuple[Tensor, Tensor]:
        """Level and scale, [B, 1, N] each."""
        return self.level(history, self.alpha), self.scale(history, self.window_weights)

    def apply_to(self, x: Tensor, level: Tensor, scale: Tensor) -> Tensor:
        return (x - level) / scale * self.weight + self.bias

    def undo(self, y: Tensor, level: Tensor, scale: Tensor) -> Tensor:
        return (y - self.bias) / self.weight * scale + level


class Level(nn.Module):
    """Exponential mean: the newest step weighs 1, each older one alpha times the next."""

    def forward(self, history: Tensor, alpha: Tensor) -> Tensor:
        steps = torch.arange(history.shape[1] - 1, -1, -1, device=history.device).unsqueeze(1)
        kept = alpha.clip(*ALPHA)
        raw = (1 - kept) * torch.pow(kept, steps)  # [L, N]
        return (raw / raw.sum(dim=0) * history).sum(dim=1, keepdim=True)


class Scale(nn.Module):
    """Unbiased deviations of the last 49, 145, 385 and all steps, weighted.

    The weights sum to 1 and their weighted sum is divided by their number once more, as the official program does.
    """

    def forward(self, history: Tensor, weights: Tensor) -> Tensor:
        kept = (weights * 2).clip(0, 1000)
        share = kept / kept.sum(dim=0)  # [4, N]
        deviations = [history[:, -w:].std(dim=1) for w in (*WINDOWS, history.shape[1])]
        mixed = (torch.stack(deviations, dim=1) * share).mean(dim=1, keepdim=True)
        return mixed.clip(SMALLEST, LARGEST) + FLOOR
