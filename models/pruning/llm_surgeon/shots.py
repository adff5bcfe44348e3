"""One shot of the surgeon over a whole network, and the targets of several (LLM Surgeon, section 3.4).

A shot measures curvature, costs every part of every matrix, finds the one threshold, removes and corrects. Several
shots raise the target linearly and measure anew each time. What went in earlier shots stays gone and counts.
Matrices keep their shape: rows and columns of different matrices are not aligned (see `models.pruning.shrink`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from models.pruning.errors import PruningError
from models.pruning.llm_surgeon.costs import (
    DAMPING,
    Live,
    column_costs,
    damped_inverse,
    live_part,
    row_costs,
    weight_costs,
)
from models.pruning.llm_surgeon.curvature import Curvature
from models.pruning.llm_surgeon.threshold import (
    block_costs,
    block_threshold,
    structure_threshold,
    weight_threshold,
)
from models.pruning.llm_surgeon.update import Correction, remove_structures, remove_weights
from models.pruning.pattern import NM, check_sparsity

WEIGHTS, STRUCTURES = "weights", "structures"
Parts = str | NM


@dataclass(frozen=True, kw_only=True)
class Surgeon:
    """Settings. parts: WEIGHTS, STRUCTURES (rows and columns), or an N:M pattern of weights."""

    sparsity: float
    parts: Parts = STRUCTURES
    shots: int = 1
    damping_inputs: float = DAMPING
    damping_outputs: float = DAMPING
    correction: Correction = field(default_factory=Correction)

    def __post_init__(self) -> None:
        check_sparsity(self.sparsity)
        if self.shots < 1:
            raise PruningError("shots", self.shots, "a whole number from 1", "1 prunes at once.")
        if isinstance(self.parts, NM) and self.sparsity > self.parts.sparsity:
            remedy = f"{self.parts} removes {self.parts.sparsity:g} of the weights where it is full."
            raise PruningError("sparsity", self.sparsity, f"at most {self.parts.sparsity:g} for {self.parts}", remedy)

    def targets(self) -> list[float]:
        """Sparsity after each shot."""
        return [shot * self.sparsity / self.shots for shot in range(1, self.shots + 1)]


Costs = Tensor | tuple[Tensor, Tensor]  # [R, C] of weights, or rows [R] and columns [C]


@torch.no_grad()
def costs_of(weight: Tensor, curvature: Curvature, surgeon: Surgeon) -> Costs:
    """Cost of every part of a matrix, dead parts 0."""
    live, inverse_inputs, inverse_outputs = _prepared(weight, curvature, surgeon)
    if surgeon.parts == STRUCTURES:
        rows, columns = torch.zeros(weight.shape[0]), torch.zeros(weight.shape[1])
        rows[live.rows] = row_costs(live, inverse_outputs)
        columns[live.columns] = column_costs(live, inverse_inputs)
        return rows, columns
    return live.whole(weight_costs(live, inverse_inputs, inverse_outputs))


def threshold_of(costs: Mapping[str, Costs], surgeon: Surgeon, target: float) -> float:
    """The network's one threshold."""
    if surgeon.parts == STRUCTURES:
        return structure_threshold((pair for pair in costs.values() if isinstance(pair, tuple)), target)
    matrices = [matrix for matrix in costs.values() if isinstance(matrix, Tensor)]
    if isinstance(surgeon.parts, NM):
        pattern = surgeon.parts
        for matrix in matrices:
            pattern.groups(matrix)
        return block_threshold(matrices, pattern.of - pattern.kept, pattern.of, target)
    return weight_threshold(matrices, target)


@torch.no_grad()
def cut(linear: nn.Linear, curvature: Curvature, costs: Costs, threshold: float, surgeon: Surgeon) -> None:
    """Remove what costs no more than the threshold from one matrix and correct the rest, in place."""
    live, *inverses = _prepared(linear.weight.float(), curvature, surgeon)
    pair = (inverses[0], inverses[1])
    if isinstance(costs, tuple):
        rows, columns = (costs[0] <= threshold)[live.rows], (costs[1] <= threshold)[live.columns]
        left = remove_structures(live.weight, pair, rows, columns, surgeon.correction)
    else:
        removed = _removed_weights(costs, threshold, surgeon.parts)[live.rows][:, live.columns]
        left = remove_weights(live.weight, pair, removed, surgeon.correction)
    linear.weight.copy_(live.whole(left))


def cut_all(
    matrices: Mapping[str, nn.Linear], curvature: Mapping[str, Curvature], surgeon: Surgeon, target: float
) -> Iterator[str]:
    """A whole shot, a matrix at a time: yields the name of each matrix once it is done."""
    costs = {name: costs_of(linear.weight.float(), curvature[name], surgeon) for name, linear in matrices.items()}
    threshold = threshold_of(costs, surgeon, target)
    for name, linear in matrices.items():
        cut(linear, curvature[name], costs[name], threshold, surgeon)
        yield name


def _removed_weights(costs: Tensor, threshold: float, parts: Parts) -> Tensor:  # bool [R, C]
    if not isinstance(parts, NM):
        return costs <= threshold
    cheap = block_costs(costs, parts.of - parts.kept, parts.of) <= threshold
    return ~parts.keep(costs) & cheap.reshape(len(costs), -1).repeat_interleave(parts.of, dim=1)


def _prepared(weight: Tensor, curvature: Curvature, surgeon: Surgeon) -> tuple[Live, Tensor, Tensor]:
    """Live part, damped A^-1, damped G^-1."""
    live = live_part(weight, *curvature.factors())
    inverse_inputs = damped_inverse(live.inputs, surgeon.damping_inputs)
    return live, inverse_inputs, damped_inverse(live.outputs, surgeon.damping_outputs)
