"""Physical shrinking: whole MLP channels and whole attention groups leave, and the matrices become smaller.

An MLP channel is row j of gate and up and column j of down: aligned, so removing it changes no other channel. An
attention group is one key-value head with the query heads that read it: rows of q, k, v and columns of o. Both leave
an ordinary Llama with another `intermediate_size`, `num_key_value_heads` and `num_attention_heads`, provided that
every layer loses the same number (readers know one width for all). The result equals the masked model: what is cut
off only ever met zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.llm.blocks import projections
from models.pruning.errors import PruningError
from models.pruning.pattern import check_sparsity

STEP = 8  # widths are kept multiples of this: vector registers and 4:8 groups fit


@dataclass(frozen=True)
class Heads:
    """Attention's geometry: query heads lie side by side, `heads / groups` to each key-value group."""

    heads: int
    groups: int
    head_dim: int

    def query_rows(self, kept: Tensor) -> Tensor:
        """Groups int64 [K] -> rows of q (and columns of o), int64 [K * heads / groups * head_dim]."""
        return _spans(kept, self.heads // self.groups * self.head_dim)

    def key_rows(self, kept: Tensor) -> Tensor:
        """Groups int64 [K] -> rows of k and v."""
        return _spans(kept, self.head_dim)


def kept_width(width: int, sparsity: float) -> int:
    """Channels to keep: (1 - sparsity) of the width, to the nearest multiple of STEP. Raises PruningError."""
    check_sparsity(sparsity)
    kept = round(width * (1 - sparsity) / STEP) * STEP
    if not 0 < kept < width:
        remedy = f"Widths stay multiples of {STEP}; choose a sparsity that leaves some and removes some."
        raise PruningError("sparsity", sparsity, f"a share of {width} channels", remedy)
    return kept


def highest(costs: Tensor, count: int) -> Tensor:
    """The `count` most costly places in ascending order, int64 [count]; of equal ones the first."""
    return costs.argsort(descending=True, stable=True)[:count].sort().values


def shrink_mlp(layer: nn.Module, kept: Tensor) -> None:
    """Cut a layer's MLP to the kept channels, int64 [K]; in place."""
    parts = {one.name: one.linear for one in projections(layer)}
    _cut(parts["mlp.gate_proj"], rows=kept)
    _cut(parts["mlp.up_proj"], rows=kept)
    _cut(parts["mlp.down_proj"], columns=kept)


def shrink_attention(layer: nn.Module, kept: Tensor, heads: Heads) -> None:
    """Cut a layer's attention to the kept groups, int64 [K]; in place."""
    parts = {one.name: one.linear for one in projections(layer)}
    _cut(parts["self_attn.q_proj"], rows=heads.query_rows(kept))
    _cut(parts["self_attn.k_proj"], rows=heads.key_rows(kept))
    _cut(parts["self_attn.v_proj"], rows=heads.key_rows(kept))
    _cut(parts["self_attn.o_proj"], columns=heads.query_rows(kept))


@torch.no_grad()
def _cut(linear: nn.Linear, rows: Tensor | None = None, columns: Tensor | None = None) -> None:
    weight = linear.weight
    if rows is not None:
        weight = weight[rows]
        if linear.bias is not None:
            linear.bias = nn.Parameter(linear.bias[rows].clone(), requires_grad=False)
    if columns is not None:
        weight = weight[:, columns]
    linear.weight = nn.Parameter(weight.clone(), requires_grad=False)
    linear.out_features, linear.in_features = linear.weight.shape


def _spans(kept: Tensor, size: int) -> Tensor:
    """[2, 0] with size 3 -> [6, 7, 8, 0, 1, 2]."""
    return (kept[:, None] * size + torch.arange(size)).flatten()
