"""Pruning one decoder layer by scores, with activations from the already pruned layers before it (RIA, Wanda).

In   hidden  float [n, T, D]   what enters the layer for n calibration sequences, or None for scores of weights alone
Out  the layer's seven matrices masked in place, and what was done to each
All seven are scored from one pass through the still dense layer before any is masked. Embeddings, norms and the head
stay dense. The caller runs the masked layer again to get what enters the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.llm.blocks import Projection, projections
from models.pruning.activations import InputStatistics
from models.pruning.calibration import observe, unobserved
from models.pruning.channel_permutation import Search, find_order, keep_in_order, retained
from models.pruning.errors import PruningError
from models.pruning.pattern import NM, Pattern
from models.pruning.reconstruction import reconstruct
from models.pruning.ria import POWER
from models.pruning.scoring import score_named


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How matrices are pruned. power: RIA's a; search: permute channels (N:M only); reconstruct: adapt kept weights."""

    method: str
    pattern: Pattern
    power: float = POWER
    search: Search | None = None
    reconstruct: bool = False

    def __post_init__(self) -> None:
        score_named(self.method)
        if self.search is not None and not isinstance(self.pattern, NM):
            remedy = "Channel permutation helps N:M patterns only; drop it or choose 2:4."
            raise PruningError("permute", str(self.pattern), "an N:M pattern", remedy)

    @property
    def reads_activations(self) -> bool:
        return self.reconstruct or score_named(self.method).reads_activations


@dataclass(frozen=True)
class Pruned:
    """One matrix' outcome. order: int64 [C] under which the mask obeys the pattern, None = as it lies."""

    name: str
    keep: Tensor
    score_before: float  # retained without permutation
    score_after: float
    order: Tensor | None


def prune_layer(layer: nn.Module, hidden: Tensor | None, arguments: dict[str, Any], recipe: Recipe) -> list[Pruned]:
    """Mask a layer's matrices in place. Raises PruningError naming the matrix a pattern does not fit."""
    found = projections(layer)
    statistics = _statistics(layer, hidden, arguments, recipe)
    outcomes = [_prune(one, statistics[one.name], recipe) for one in found]
    for one, outcome in zip(found, outcomes, strict=True):
        _mask(one.linear, outcome.keep, statistics[one.name], recipe)
    return outcomes


@torch.no_grad()
def prune_matrix(name: str, weight: Tensor, statistics: InputStatistics, recipe: Recipe) -> Pruned:
    """Choose what stays of one matrix, float [R, C]; the matrix itself is left alone."""
    score = score_named(recipe.method).of(weight.float(), statistics.energy, recipe.power)
    direct = recipe.pattern.keep(score)
    before = retained(score, direct)
    if recipe.search is None or not isinstance(recipe.pattern, NM):
        return Pruned(name, direct, before, before, None)
    order = find_order(score, recipe.pattern, recipe.search)
    keep = keep_in_order(score, recipe.pattern, order)
    return Pruned(name, keep, before, retained(score, keep), order)


def _prune(one: Projection, statistics: InputStatistics, recipe: Recipe) -> Pruned:
    try:
        return prune_matrix(one.name, one.linear.weight, statistics, recipe)
    except PruningError as error:
        raise PruningError(f"{one.name}, {error.field}", error.value, error.expected, error.remedy) from error


@torch.no_grad()
def _mask(linear: nn.Linear, keep: Tensor, statistics: InputStatistics, recipe: Recipe) -> None:
    if recipe.reconstruct and statistics.gram is not None:
        linear.weight.copy_(reconstruct(linear.weight, statistics.gram, keep))
    else:
        linear.weight.masked_fill_(~keep, 0.0)


def _statistics(
    layer: nn.Module, hidden: Tensor | None, arguments: dict[str, Any], recipe: Recipe
) -> dict[str, InputStatistics]:
    if not recipe.reads_activations:
        return unobserved(layer)
    if hidden is None:
        remedy = "Give a calibration text, or choose magnitude or ri."
        raise PruningError("calibration", "none", f"sequences for {recipe.method}", remedy)
    return observe(layer, hidden, arguments, with_gram=recipe.reconstruct)
