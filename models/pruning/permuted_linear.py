"""Execution of a permuted layer: y = W[:, p] · x[p].

In   x  float [..., C]   channels in original order
Out  y  float [..., R]
Storing W[:, p] alone is not enough: unless the inputs are permuted too, the layer computes something else. Where the
inputs come from rows of earlier matrices only, `folding` permutes those instead and no index is needed at run time.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from models.pruning.errors import PruningError


class PermutedLinear(nn.Module):
    """A linear layer whose columns lie in another order; `weight` obeys the N:M pattern as stored."""

    order: Tensor

    def __init__(self, weight: Tensor, order: Tensor, bias: Tensor | None = None) -> None:
        """weight: float [R, C], already in `order` (int64 [C], a permutation)."""
        super().__init__()
        check_order(order, weight.shape[1])
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.register_buffer("order", order)

    @classmethod
    def of(cls, linear: nn.Linear, order: Tensor) -> PermutedLinear:
        """The same function as `linear`, stored in `order`."""
        check_order(order, linear.in_features)
        return cls(linear.weight.detach()[:, order].contiguous(), order, linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x[..., self.order], self.weight, self.bias)


def check_order(order: Tensor, channels: int) -> None:
    """Raise PruningError unless every channel is named exactly once."""
    if order.ndim != 1 or order.sort().values.tolist() != list(range(channels)):
        remedy = "Take the order from the search that made the mask."
        raise PruningError("order", f"{list(order.shape)}", f"a permutation of {channels} channels", remedy)
