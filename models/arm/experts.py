"""ARM's experts: each series, history and horizon in one row, goes through the one network its switch chooses."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Expert(nn.Module):
    """Two linear maps with an exact GELU between: L + H -> 4 (L + H) -> H."""

    def __init__(self, steps: int, horizon: int) -> None:
        super().__init__()
        self.expand = nn.Linear(steps, 4 * steps)
        self.contract = nn.Linear(4 * steps, horizon)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.contract(nn.functional.gelu(self.expand(x)))
        return made


class Experts(nn.Module):
    """[B, N, L + H] -> [B, N, H]. All experts answer and one answer is taken: the same numbers as sparse routing,
    and a graph that exports."""

    def __init__(self, steps: int, horizon: int, count: int) -> None:
        super().__init__()
        self.switch = nn.Linear(steps, count)
        self.experts = nn.ModuleList(Expert(steps, horizon) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        if len(self.experts) == 1:
            only: Tensor = self.experts[0](x)
            return only
        route = self.switch(x).softmax(dim=-1).argmax(dim=-1, keepdim=True)  # [B, N, 1]
        answers = torch.stack([expert(x) for expert in self.experts], dim=2)  # [B, N, E, H]
        chosen = route.unsqueeze(-1).expand(-1, -1, -1, answers.shape[-1])
        return answers.gather(2, chosen).squeeze(2)
