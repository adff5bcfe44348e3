"""Convolutions as MMDetection stacks them."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class ConvBlock(nn.Module):
    """Convolution, then BatchNorm (and no bias) or a bias, then ReLU where asked for."""

    def __init__(self, inputs: int, outputs: int, size: int, *, norm: bool, relu: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=not norm)
        self.norm: nn.Module = nn.BatchNorm2d(outputs) if norm else nn.Identity()
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x))
        return functional.relu(y) if self.relu else y


def stack_linear(count: int, inputs: int, outputs: int) -> nn.ModuleList:
    """`count` affine maps; the first takes `inputs`."""
    return nn.ModuleList(nn.Linear(inputs if i == 0 else outputs, outputs) for i in range(count))


def through(layers: nn.ModuleList, x: Tensor) -> Tensor:
    """Each map followed by ReLU."""
    for layer in layers:
        x = functional.relu(layer(x))
    return x
