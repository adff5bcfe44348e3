"""The piecewise-exponential head: hazards in time bins, and what follows from them (Steinberg et al., ICLR 2024, 3.2).

Letters: N positions, b bins, r rank, t tasks, T horizons.
A hazard of 0 (log2 = -inf) is legal: survival 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.motor.config import MotorConfig


class Head(nn.Module):
    """Representations [N, D] -> log2 of the hazard per time unit [N, b, t]."""

    def __init__(self, config: MotorConfig) -> None:
        super().__init__()
        self.bins, self.rank = config.bins, config.rank
        self.binned = nn.Linear(config.hidden, config.bins * config.rank)
        self.task = nn.Linear(config.rank, len(config.tasks))
        if config.layout == "v2":
            from models.motor.layers import RmsNorm

            self.norm: nn.Module = RmsNorm(config.rank, config.epsilon)
            self.time_bias = nn.Parameter(torch.zeros(1, config.bins, len(config.tasks)))

    def features(self, representations: Tensor) -> Tensor:
        """Frozen features of each bin [N, b, r]: what task adapters are fitted on."""
        made: Tensor = self.binned(representations).reshape(*representations.shape[:-1], self.bins, self.rank)
        return self.norm(made) if hasattr(self, "norm") else made

    def forward(self, representations: Tensor) -> Tensor:
        logits: Tensor = self.task(self.features(representations))
        return logits + self.time_bias if hasattr(self, "time_bias") else logits


def time_in_bins(horizons: Tensor, starts: Tensor) -> Tensor:
    """How much of each bin lies before each horizon: [T], [b] -> [T, b]; the last bin is unbounded."""
    ends = torch.cat([starts[1:], starts.new_full((1,), math.inf)])
    return (torch.minimum(horizons.unsqueeze(-1), ends) - starts).clamp(min=0)


def cumulative_hazard(log2_hazard: Tensor, starts: Tensor, horizons: Tensor) -> Tensor:
    """[N, b, t] -> integral of the hazard up to each horizon [N, T, t]."""
    return torch.einsum("nbt,Tb->nTt", torch.exp2(log2_hazard), time_in_bins(horizons, starts))


def survival(log2_hazard: Tensor, starts: Tensor, horizons: Tensor) -> Tensor:
    """Probability that nothing has happened by each horizon, [N, T, t] in 0..1."""
    return torch.exp(-cumulative_hazard(log2_hazard, starts, horizons))


def median_time(log2_hazard: Tensor, starts: Tensor) -> Tensor:
    """First time at which survival is one half [N, t]; infinity where it never is."""
    hazard = torch.exp2(log2_hazard)
    lengths = torch.cat([starts[1:] - starts[:-1], starts.new_full((1,), math.inf)]).reshape(1, -1, 1)
    held = torch.where(hazard > 0, hazard * lengths, 0.0)  # hazard gathered in each bin; 0 x infinity is 0
    before = torch.cat([torch.zeros_like(held[:, :1]), torch.cumsum(held[:, :-1], dim=1)], dim=1)
    wanted = (math.log(2) - before) / hazard
    inside = (before <= math.log(2)) & (wanted <= lengths) & (hazard > 0)
    found = torch.where(inside, starts.reshape(1, -1, 1) + wanted, math.inf)
    return found.amin(dim=1)


def loss(log2_hazard: Tensor, log2_time: Tensor, is_event: Tensor) -> Tensor:
    """Negative log-likelihood, mean over positions, bins and tasks.

    log2_time  log2 of the time at risk in each bin, -inf where none; is_event: where the event falls
    """
    at_risk = torch.exp2(log2_hazard + log2_time).mean()
    happened = torch.where(is_event.bool(), log2_hazard, 0.0).mean()
    return at_risk - math.log(2) * happened
