"""How the remaining weights answer a removal (LLM Surgeon, section 3.3): the curvature's best correction.

Rows r      W <- W - G^-1[:, r] (G^-1[r, r])^-1 W[r, :]
Columns c   W <- W - W[:, c] (A^-1[c, c])^-1 A^-1[c, :]
Weights Q   W <- W - G^-1 M A^-1, M zero outside Q and solving [G^-1_rr' A^-1_cc']_QQ m = w_Q
All removed at once are corrected together, correlations included; `together` caps how many are solved as one system
(0 = no cap), the rest then being taken as independent. Corrections are computed from the weights before the shot, or
(`additive`) each from the weights the earlier ones left. Solved in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Correction:
    """Settings of the update."""

    together: int = 0
    additive: bool = False


def remove_structures(
    weight: Tensor, inverses: tuple[Tensor, Tensor], rows: Tensor, columns: Tensor, how: Correction
) -> Tensor:
    """Weights [R, C] without the marked rows (bool [R]) and columns (bool [C]). inverses: A^-1, G^-1."""
    inverse_inputs, inverse_outputs = (one.double() for one in inverses)
    before = weight.double()
    change = torch.zeros_like(before)
    for part in _parts(rows, how.together):
        base = before + change if how.additive else before
        step = -inverse_outputs[:, part] @ torch.linalg.solve(inverse_outputs[part][:, part], base[part])
        step[part] = -before[part]
        change += step
    for part in _parts(columns, how.together):
        base = before + change if how.additive else before
        step = -torch.linalg.solve(inverse_inputs[part][:, part], base[:, part].T).T @ inverse_inputs[part]
        step[:, part] = -before[:, part]
        change += step
    return (before + change).float().masked_fill(rows[:, None] | columns, 0.0)


def remove_weights(weight: Tensor, inverses: tuple[Tensor, Tensor], removed: Tensor, how: Correction) -> Tensor:
    """Weights [R, C] without those marked, bool [R, C]. inverses: A^-1, G^-1."""
    inverse_inputs, inverse_outputs = (one.double() for one in inverses)
    before = weight.double()
    change, pulls = torch.zeros_like(before), torch.zeros_like(before)
    for rows, columns in _weight_parts(removed, how.together):
        base = before[rows, columns] + change[rows, columns]
        system = inverse_outputs[rows][:, rows] * inverse_inputs[columns][:, columns]
        pulls[rows, columns] = torch.linalg.solve(system, base)
        if how.additive:
            touched = torch.unique(rows)
            change -= inverse_outputs[:, touched] @ (pulls[touched] @ inverse_inputs)
            pulls.zero_()
    change -= inverse_outputs @ pulls @ inverse_inputs  # nothing is left to pull if each part was applied at once
    return (before + change).float().masked_fill(removed, 0.0)


def _parts(marked: Tensor, together: int) -> list[Tensor]:
    """Indices of the marked ones, `together` at a time; none where nothing is marked."""
    index = marked.nonzero().flatten()
    if not len(index):
        return []
    return list(torch.split(index, together)) if together else [index]


def _weight_parts(removed: Tensor, together: int) -> list[tuple[Tensor, Tensor]]:
    """(rows, columns) of removed weights: whole rows joined while they fit `together`; a longer row stays whole."""
    rows, columns = removed.nonzero(as_tuple=True)
    if not len(rows):
        return []
    if not together:
        return [(rows, columns)]
    sizes: list[int] = []
    for count in removed.sum(dim=1).tolist():
        if sizes and sizes[-1] + count <= together:
            sizes[-1] += count
        elif count:
            sizes.append(count)
    return list(zip(torch.split(rows, sizes), torch.split(columns, sizes), strict=True))
