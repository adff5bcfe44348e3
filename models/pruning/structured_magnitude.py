"""Rows and columns by their length: the baseline of structured pruning (LLM Surgeon's "identity" curvature).

cost of a row or column = its L2 norm; all of a network share one threshold; nothing is corrected. Norms of different
matrices are hardly comparable, which is why this baseline collapses where curvature does not.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def norm_costs(weight: Tensor) -> tuple[Tensor, Tensor]:
    """float [R, C] -> rows [R], columns [C]; one threshold for all matrices comes from `structure_threshold`."""
    return weight.norm(dim=1), weight.norm(dim=0)


@torch.no_grad()
def cut_by_norm(linear: nn.Linear, threshold: float) -> None:
    """Zero every row and column no longer than the threshold, in place."""
    rows, columns = norm_costs(linear.weight.float())
    linear.weight.masked_fill_((rows <= threshold)[:, None] | (columns <= threshold), 0.0)
