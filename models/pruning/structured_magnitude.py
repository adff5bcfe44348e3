"""Rows and columns by their length: the baseline of structured pruning (LLM Surgeon's "identity" curvature).

cost of a row or column = its L2 norm; all of a network share one threshold; nothing is corrected. Norms of different
matrices are hardly comparable, which is why this baseline collapses where curvature does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from models.pruning.llm_surgeon.threshold import structure_threshold
from models.pruning.pattern import check_sparsity


def norm_costs(weight: Tensor) -> tuple[Tensor, Tensor]:
    """float [R, C] -> rows [R], columns [C]."""
    return weight.norm(dim=1), weight.norm(dim=0)


@torch.no_grad()
def cut_by_norm(matrices: Mapping[str, nn.Linear], sparsity: float) -> Iterator[str]:
    """Zero rows and columns in place, a matrix at a time: yields the name of each matrix once it is done."""
    check_sparsity(sparsity)
    costs = {name: norm_costs(linear.weight.float()) for name, linear in matrices.items()}
    threshold = structure_threshold(costs.values(), sparsity)
    for name, linear in matrices.items():
        rows, columns = costs[name]
        linear.weight.masked_fill_((rows <= threshold)[:, None] | (columns <= threshold), 0.0)
        yield name
