"""RIA: relative importance and activation (Zhang et al., ICLR 2024, section 3.1).

score = (|w| / column sum of |w| + |w| / row sum of |w|) * ||x||^a
The relative part keeps weights that are large among their own input's and output's, so that no channel dies out; a
softens the activations' outliers (0.5 in the paper). Compared over the whole matrix by default.
"""

from __future__ import annotations

import torch
from torch import Tensor

POWER = 0.5  # the paper's a


def relative_importance(weight: Tensor) -> Tensor:
    """float [R, C] -> [R, C]; 0 for a weight whose whole row or column is 0."""
    size = weight.abs()
    return _share(size, size.sum(dim=0, keepdim=True)) + _share(size, size.sum(dim=1, keepdim=True))


def ria_score(weight: Tensor, energy: Tensor, power: float = POWER) -> Tensor:
    """float [R, C], float [C] (||x||^2, see `activations`) -> [R, C]."""
    norm: Tensor = energy.sqrt() ** power
    return relative_importance(weight) * norm


def _share(part: Tensor, whole: Tensor) -> Tensor:
    return torch.where(whole > 0, part / whole, 0.0)
