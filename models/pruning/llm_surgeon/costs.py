"""What removing a part of a matrix costs the loss, remaining weights adapted (LLM Surgeon, section 3.2).

    weight   1/2 W_rc^2                / ([G^-1]_rr [A^-1]_cc)
    row      1/2 W_r  A W_r^T          /  [G^-1]_rr
    column   1/2 W_c^T G W_c           /  [A^-1]_cc
Inverses are damped by a share of the mean diagonal and taken in float64; costs are float32. Rows and columns that are
all zero, or that never fired, are dead: they take no part and cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

DAMPING = 0.01  # share of a factor's mean diagonal added to it


@dataclass(frozen=True)
class Live:
    """A matrix without its dead rows and columns, W [R', C'], A [C', C'], G [R', R'], and where those lie in it."""

    weight: Tensor
    inputs: Tensor
    outputs: Tensor
    rows: Tensor  # bool [R]
    columns: Tensor  # bool [C]

    def whole(self, part: Tensor, fill: float = 0.0) -> Tensor:
        """Put [R', C'] back into [R, C]."""
        full = torch.full((len(self.rows), len(self.columns)), fill, dtype=part.dtype)
        full[self.rows.nonzero(), self.columns.nonzero().T] = part
        return full


def live_part(weight: Tensor, inputs: Tensor, outputs: Tensor) -> Live:
    """float32 [R, C], A [C, C], G [R, R]."""
    rows = (weight != 0).any(dim=1) & (outputs.diagonal() != 0)
    columns = (weight != 0).any(dim=0) & (inputs.diagonal() != 0)
    return Live(weight[rows][:, columns], inputs[columns][:, columns], outputs[rows][:, rows], rows, columns)


def damped_inverse(factor: Tensor, share: float) -> Tensor:
    """Inverse of factor + share * mean diagonal, float32 in and out, float64 within."""
    if not len(factor):
        return factor
    damped = factor.double() + torch.eye(len(factor), dtype=torch.float64) * (share * factor.diagonal().mean().item())
    return torch.cholesky_inverse(torch.linalg.cholesky(damped)).float()


def weight_costs(part: Live, inverse_inputs: Tensor, inverse_outputs: Tensor) -> Tensor:  # [R', C']
    return 0.5 * part.weight**2 / torch.outer(inverse_outputs.diagonal(), inverse_inputs.diagonal())


def row_costs(part: Live, inverse_outputs: Tensor) -> Tensor:  # [R']
    return 0.5 * ((part.weight @ part.inputs) * part.weight).sum(dim=1) / inverse_outputs.diagonal()


def column_costs(part: Live, inverse_inputs: Tensor) -> Tensor:  # [C']
    return 0.5 * ((part.outputs @ part.weight) * part.weight).sum(dim=0) / inverse_inputs.diagonal()
