"""Folding a permutation into what produces the channels, so that it costs nothing at run time.

Exact in a gated MLP: y = down(act(gate x) * up x) works channel by channel between gate/up and down, so permuting
the rows of gate and up (and their biases) permutes down's inputs. Nowhere else in a Llama layer is it exact:
q, k, v, gate, up  read the residual stream, whose order every layer, the embedding and the head share
o_proj             reads heads side by side; an order that crosses heads has no counterpart in softmax(q k) v
Those keep their original order in the file, and a fast kernel gathers x[p] (see `permuted_linear`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.pruning.permuted_linear import check_order


@torch.no_grad()
def fold_mlp(gate: nn.Linear, up: nn.Linear, down: nn.Linear, order: Tensor) -> None:
    """Reorder the hidden channels in place: rows of gate and up, columns of down. The function stays the same."""
    check_order(order, down.in_features)
    for producer in (gate, up):
        producer.weight.copy_(producer.weight[order].clone())
        if producer.bias is not None:
            producer.bias.copy_(producer.bias[order].clone())
    down.weight.copy_(down.weight[:, order].clone())
