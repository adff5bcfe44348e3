"""Which MLP channels and attention groups leave a layer, by scores or by curvature.

A channel leaves with column j of down, which alone decides what it contributes: its rows in gate and up then feed
nothing. So a channel's cost is its column's, and a group's is that of its columns in o:
    by score       sum over the columns of the magnitude, Wanda or RIA score
    by curvature   1/2 tr(G W_c [A^-1]_cc^-1 W_c^T), and the other columns are corrected (LLM Surgeon)
Every layer ranks its own: one uniform width makes costs of different layers incomparable anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.llm.blocks import projections
from models.pruning.activations import InputStatistics
from models.pruning.errors import PruningError
from models.pruning.llm_surgeon.costs import DAMPING, damped_inverse, live_part
from models.pruning.llm_surgeon.curvature import Curvature
from models.pruning.llm_surgeon.update import Correction, remove_structures
from models.pruning.ria import POWER
from models.pruning.scoring import score_named
from models.pruning.shrink import Heads, highest, kept_width, shrink_attention, shrink_mlp

DOWN, OUT = "mlp.down_proj", "self_attn.o_proj"


@dataclass(frozen=True, kw_only=True)
class Aligned:
    """What every layer loses. sparsity: share of MLP channels; groups: key-value groups removed beside them.

    damping  of the curvature, where it is what decides
    """

    sparsity: float
    heads: Heads
    groups: int = 0
    damping: float = DAMPING

    def __post_init__(self) -> None:
        if not 0 <= self.groups < self.heads.groups:
            remedy = "At least one key-value group must stay."
            raise PruningError("kv_groups", self.groups, f"0 to {self.heads.groups - 1}", remedy)


@dataclass(frozen=True)
class Kept:
    """What stays of a layer, as places in the dense one: channels int64 [K], groups int64 [K]."""

    channels: Tensor
    groups: Tensor


@torch.no_grad()
def shrink_by_score(
    layer: nn.Module, statistics: dict[str, InputStatistics], method: str, aligned: Aligned, power: float = POWER
) -> Kept:
    """Shrink a layer in place by a named score; statistics of DOWN and OUT are read where the score needs them."""
    parts = {one.name: one.linear for one in projections(layer)}
    costs = {}
    for name in (DOWN, OUT):
        score = score_named(method).of(parts[name].weight.float(), statistics[name].energy, power)
        costs[name] = score.sum(dim=0)
    return _shrink(layer, costs[DOWN], _by_group(costs[OUT], aligned.heads), aligned)


@torch.no_grad()
def shrink_by_curvature(layer: nn.Module, curvature: dict[str, Curvature], aligned: Aligned) -> Kept:
    """Shrink a layer in place by cost under the curvature of DOWN and OUT; what stays of both is corrected."""
    parts = {one.name: one.linear for one in projections(layer)}
    width = aligned.heads.heads // aligned.heads.groups * aligned.heads.head_dim
    channels = block_costs(parts[DOWN].weight.float(), curvature[DOWN], 1, aligned.damping)
    groups = block_costs(parts[OUT].weight.float(), curvature[OUT], width, aligned.damping)
    kept = _choose(channels, groups, aligned)
    _correct(parts[DOWN], curvature[DOWN], kept.channels, aligned.damping)
    if aligned.groups:
        _correct(parts[OUT], curvature[OUT], aligned.heads.query_rows(kept.groups), aligned.damping)
    _apply(layer, kept, aligned)
    return kept


def block_costs(weight: Tensor, curvature: Curvature, width: int, damping: float = DAMPING) -> Tensor:
    """Cost of every `width` neighbouring columns together, float [C / width]; dead columns cost nothing."""
    inputs, outputs = curvature.factors()
    live = live_part(weight, inputs, outputs)
    inverse = torch.zeros_like(inputs)
    places = live.columns.nonzero().flatten()
    inverse[places[:, None], places] = damped_inverse(live.inputs, damping)
    inverse += torch.diag((~live.columns).to(inverse.dtype))  # makes blocks solvable; their weights are zero
    pulled = outputs @ live.whole(live.weight)
    if width == 1:
        return 0.5 * (pulled * weight).sum(dim=0) / inverse.diagonal()
    blocks = [slice(start, start + width) for start in range(0, weight.shape[1], width)]
    values = [0.5 * (pulled[:, b] * torch.linalg.solve(inverse[b, b], weight[:, b].T).T).sum() for b in blocks]
    return torch.stack(values)


def _correct(linear: nn.Linear, curvature: Curvature, kept: Tensor, damping: float) -> None:
    """The remaining columns make up for those that will be cut off."""
    live = live_part(linear.weight.float(), *curvature.factors())
    removed = torch.ones(linear.in_features, dtype=torch.bool).index_fill_(0, kept, False)[live.columns]
    inverses = (damped_inverse(live.inputs, damping), damped_inverse(live.outputs, damping))
    no_rows = torch.zeros(len(live.weight), dtype=torch.bool)
    linear.weight.copy_(live.whole(remove_structures(live.weight, inverses, no_rows, removed, Correction())))


def _shrink(layer: nn.Module, channels: Tensor, groups: Tensor, aligned: Aligned) -> Kept:
    kept = _choose(channels, groups, aligned)
    _apply(layer, kept, aligned)
    return kept


def _choose(channels: Tensor, groups: Tensor, aligned: Aligned) -> Kept:
    width = kept_width(len(channels), aligned.sparsity)
    return Kept(highest(channels, width), highest(groups, len(groups) - aligned.groups))


def _apply(layer: nn.Module, kept: Kept, aligned: Aligned) -> None:
    shrink_mlp(layer, kept.channels)
    if aligned.groups:
        shrink_attention(layer, kept.groups, aligned.heads)


def _by_group(columns: Tensor, heads: Heads) -> Tensor:  # [heads * head_dim] -> [groups]
    return columns.reshape(heads.groups, -1).sum(dim=1)
