"""One threshold for the whole network: every part that costs no more than it goes (LLM Surgeon, section 3.2).

Dead parts count, at cost zero, so that the target speaks of all weights. The threshold is itself the cost of one part.
Weights, blocks    the cost at sorted position int(target * count)
Rows and columns   the highest cost at which the weights removed, crossings counted once, do not exceed the target
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

NOTHING = float("-inf")  # no cost is as low


def weight_threshold(costs: Iterable[Tensor], target: float) -> float:
    """costs: one [R, C] a matrix."""
    every = torch.cat([matrix.flatten() for matrix in costs])
    return float(every.kthvalue(min(int(target * len(every)), len(every) - 1) + 1).values)


def block_threshold(costs: Iterable[Tensor], pruned: int, of: int, target: float) -> float:
    """N:M blocks: the sum of a block's `pruned` lowest costs; target: share of weights removed, <= pruned / of."""
    blocks = [block_costs(matrix, pruned, of).flatten() for matrix in costs]
    return weight_threshold(blocks, target * of / pruned)


def block_costs(matrix: Tensor, pruned: int, of: int) -> Tensor:  # [R, C] -> [R * C/M]
    return matrix.reshape(-1, of).sort(dim=1).values[:, :pruned].sum(dim=1)


def structure_threshold(costs: Iterable[tuple[Tensor, Tensor]], target: float) -> float:
    """costs: (rows [R], columns [C]) a matrix. NOTHING where even the cheapest structure is too large."""
    ascending, freed = _freed_by_cost(costs)
    removed = freed.cumsum(0)  # int64: exact for any size
    within = int((removed <= int(target * int(removed[-1]))).sum())
    return float(ascending[within - 1]) if within else NOTHING


def _freed_by_cost(costs: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """All structures by ascending cost, and the weights each frees that its matrix still had."""
    values, sizes = [], []
    for rows, columns in costs:
        order = torch.cat([rows, columns]).argsort()
        is_row = (order < len(rows)).long()
        gone_rows, gone_columns = is_row.cumsum(0), (1 - is_row).cumsum(0)
        gone = gone_rows * len(columns) + gone_columns * len(rows) - gone_rows * gone_columns
        values.append(torch.cat([rows, columns])[order])
        sizes.append(gone.diff(prepend=gone.new_zeros(1)))
    every = torch.cat(values)
    order = every.argsort(stable=True)
    return every[order], torch.cat(sizes)[order]
