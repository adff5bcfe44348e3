"""The pruning methods a second time: float64 loops straight from the formulas, slow and without any of our code."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]


def energy(sequences: Matrix) -> Matrix:
    """[n, T, C] -> [C]: mean over sequences of the sum of squares over tokens."""
    return np.array([[sum(x * x for x in channel) for channel in sequence.T] for sequence in sequences]).mean(axis=0)


def score(method: str, weight: Matrix, norm2: Matrix, power: float) -> Matrix:
    size, norm = np.abs(weight), np.sqrt(norm2)
    if method == "magnitude":
        return size
    if method == "wanda":
        return size * norm
    relative = np.zeros_like(size)
    for r, c in np.ndindex(*size.shape):
        relative[r, c] = size[r, c] / size[:, c].sum() + size[r, c] / size[r].sum()
    return relative if method == "ri" else relative * norm**power


def whole_matrix(values: Matrix, share: float) -> Mask:
    """Kept: all above the value at sorted place int(n * share)."""
    bar = sorted(values.flatten())[int(values.size * share)]
    return np.array([[value > bar for value in row] for row in values])


def per_output(values: Matrix, share: float) -> Mask:
    keep = np.ones_like(values, dtype=bool)
    for r, row in enumerate(values):
        for c in sorted(range(len(row)), key=lambda place: row[place])[: int(len(row) * share)]:
            keep[r, c] = False
    return keep


def n_of_m(values: Matrix, kept: int, of: int) -> Mask:
    keep = np.zeros_like(values, dtype=bool)
    for r, row in enumerate(values):
        for start in range(0, len(row), of):
            group = sorted(range(start, start + of), key=lambda place: row[place])
            keep[r, group[of - kept :]] = True
    return keep


def kept_score(values: Matrix, kept: int, of: int) -> float:
    return float(values[n_of_m(values, kept, of)].sum())


def dealt(values: Matrix, of: int, importance: str, share: float) -> list[int]:
    """Channels by ascending importance, dealt to `of` slots of the groups, every second slot backwards."""
    if importance == "sum":
        worth = list(values.sum(axis=0))
    else:
        keep = whole_matrix(values, share) if importance.endswith("unstructured") else per_output(values, share)
        worth = list((values * keep).sum(axis=0))
    ascending = sorted(range(len(worth)), key=lambda place: worth[place])
    groups = len(ascending) // of
    slots = [ascending[slot * groups : (slot + 1) * groups] for slot in range(of)]
    return [(slots[s][::-1] if s % 2 else slots[s])[g] for g in range(groups) for s in range(of)]


def refined(values: Matrix, order: list[int], kept: int, of: int) -> list[int]:
    """Slot by slot, the best of ALL ways to deal its channels over the groups: for a handful of groups only."""
    groups = len(order) // of
    for slot in range(of):
        members = [order[g * of : (g + 1) * of] for g in range(groups)]
        worth = np.zeros((groups, groups))
        for g, candidate in np.ndindex(groups, groups):
            trial = [members[candidate][s] if s == slot else members[g][s] for s in range(of)]
            worth[g, candidate] = kept_score(values[:, trial], kept, of)
        ways = itertools.permutations(range(groups))
        best = max(ways, key=lambda way: sum(worth[g, candidate] for g, candidate in enumerate(way)))
        for g, candidate in enumerate(best):
            order[g * of + slot] = members[candidate][slot]
    return order


def reconstructed(weight: Matrix, sequences: Matrix, keep: Mask) -> Matrix:
    """Column by column by the definition: a removed weight's error goes to later columns by the shrinking inverse."""
    hessian = sum(2 * x.T @ x for x in sequences) / len(sequences)
    hessian += 0.01 * np.mean(np.diag(hessian)) * np.eye(len(hessian))
    left = weight.copy()
    for c in range(weight.shape[1]):
        inverse = np.linalg.inv(hessian[c:, c:])
        for r in np.flatnonzero(~keep[:, c]):
            left[r, c:] -= left[r, c] / inverse[0, 0] * inverse[0]
    return np.where(keep, left, 0.0)


def balanced(inputs: Matrix, outputs: Matrix) -> tuple[Matrix, Matrix]:
    """A and G of one Frobenius norm, the geometric mean of their own."""
    a, g = math.sqrt((inputs**2).sum()), math.sqrt((outputs**2).sum())
    return inputs * math.sqrt(a * g) / a, outputs * math.sqrt(a * g) / g


def inverse(factor: Matrix, damping: float) -> Matrix:
    return np.linalg.inv(factor + damping * np.mean(np.diag(factor)) * np.eye(len(factor)))


def live(weight: Matrix, a: Matrix, g: Matrix) -> tuple[Mask, Mask]:
    """Rows and columns that still do something: not all zero, and seen by some input or gradient."""
    return (weight != 0).any(axis=1) & (np.diag(g) != 0), (weight != 0).any(axis=0) & (np.diag(a) != 0)


def structure_costs(weight: Matrix, a: Matrix, g: Matrix, damping: float) -> tuple[Matrix, Matrix]:
    """Of rows and columns; those that do nothing cost nothing and take no part."""
    rows, columns = live(weight, a, g)
    row_cost, column_cost = np.zeros(len(rows)), np.zeros(len(columns))
    part = weight[rows][:, columns]
    inputs, outputs = a[columns][:, columns], g[rows][:, rows]
    g_diagonal, a_diagonal = np.diag(inverse(outputs, damping)), np.diag(inverse(inputs, damping))
    row_cost[rows] = [0.5 * (w @ inputs @ w) / d for w, d in zip(part, g_diagonal, strict=True)]
    column_cost[columns] = [0.5 * (w @ outputs @ w) / d for w, d in zip(part.T, a_diagonal, strict=True)]
    return row_cost, column_cost


def weight_costs(weight: Matrix, a: Matrix, g: Matrix, damping: float) -> Matrix:
    return 0.5 * weight**2 / np.outer(np.diag(inverse(g, damping)), np.diag(inverse(a, damping)))


def structures_below(costs: dict[str, tuple[Matrix, Matrix]], target: float) -> dict[str, tuple[Mask, Mask]]:
    """Remove the cheapest row or column of all, again and again, counting zeros, until the next would be too many."""
    masks = {name: (np.zeros(len(r), bool), np.zeros(len(c), bool)) for name, (r, c) in costs.items()}
    every = sorted(
        (cost, name, side, place)
        for name, pair in costs.items()
        for side, part in enumerate(pair)
        for place, cost in enumerate(part)
    )
    allowed = int(target * sum(len(r) * len(c) for r, c in costs.values()))
    for _, name, side, place in every:
        masks[name][side][place] = True
        if sum(int((r[:, None] | c).sum()) for r, c in masks.values()) > allowed:
            masks[name][side][place] = False
            break
    return masks


def without_structures(weight: Matrix, a: Matrix, g: Matrix, damping: float, gone: tuple[Mask, Mask]) -> Matrix:
    """Best answer to the rows going plus best answer to the columns going, both from the weights before."""
    rows, columns = live(weight, a, g)
    part, r, c = weight[rows][:, columns], gone[0][rows], gone[1][columns]
    g_inverse, a_inverse = inverse(g[rows][:, rows], damping), inverse(a[columns][:, columns], damping)
    by_rows = -g_inverse[:, r] @ np.linalg.inv(g_inverse[r][:, r]) @ part[r]
    by_columns = -part[:, c] @ np.linalg.inv(a_inverse[c][:, c]) @ a_inverse[c]
    after = np.zeros_like(weight)
    after[np.ix_(rows, columns)] = part + by_rows + by_columns
    after[gone[0]] = 0.0
    after[:, gone[1]] = 0.0
    return after


def without_weights(weight: Matrix, a: Matrix, g: Matrix, damping: float, gone: Mask) -> Matrix:
    """Optimal brain surgeon on the whole Kronecker product written out."""
    fisher = np.kron(inverse(g, damping), inverse(a, damping))
    places = np.flatnonzero(gone)
    pull = np.linalg.inv(fisher[np.ix_(places, places)]) @ weight.flatten()[places]
    after = weight - (fisher[:, places] @ pull).reshape(weight.shape)
    return np.where(gone, 0.0, after)
