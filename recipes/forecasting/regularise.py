"""What the papers' networks do in training only: dropout, and batch statistics in BatchNorm.

The networks in `models/` are evaluation only. Here they get both from outside: dropout by hooks at the places where the
official programs have it, batch statistics by a norm of the same parameters. In evaluation mode nothing is changed.
"""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from models.forecasting.batch_norm import ChannelNorm

OUT, IN = "out", "in"
EXPERT_DROPOUT, SMOOTHING_DROPOUT = 0.75, 0.25  # fixed in the official ARM

_BACKBONES: dict[str, list[tuple[str, str]]] = {  # path of a module (# = number), its output or its input
    "itransformer": [
        ("embed", OUT),
        ("layers.#.attention.softmax", OUT),
        ("layers.#.attention", OUT),
        ("layers.#.contract", IN),
        ("layers.#.contract", OUT),
    ],
    "card": [
        ("patch", OUT),
        ("blocks.#.mix", OUT),
        ("blocks.#.over_channels.ff_rows.2", IN),
        ("blocks.#.over_channels.ff_width.2", IN),
        ("blocks.#.over_tokens.ff_rows.2", IN),
        ("blocks.#.over_tokens.ff_width.2", IN),
    ],
}  # fmt: skip
_ARM = [("experts.experts.#.contract", IN, EXPERT_DROPOUT)]
_ARM += [(f"predictor.smooth_{where}.widen", IN, SMOOTHING_DROPOUT) for where in ("input", "encoder", "decoder")]


class TrainingNorm(ChannelNorm):
    """The same norm; in training mode by the batch's own statistics, which move the stored ones by a tenth."""

    MOMENTUM = 0.1

    def forward(self, x: Tensor) -> Tensor:  # [..., D] -> [..., D]
        if not self.training:
            return super().forward(x)
        flat = x.flatten(0, -2)
        mean, var = self.running_mean, self.running_var
        normed = functional.batch_norm(flat, mean, var, self.weight, self.bias, True, self.MOMENTUM, self.EPS)
        return normed.reshape(x.shape)


def prepare(network: nn.Module, architecture: str, dropout: float, prefix: str = "") -> None:
    """Give a network what it needs to be trained. prefix: where the paper's network sits in it, "" or "backbone."."""
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, ChannelNorm):
                setattr(parent, name, _trainable(child))
    places = [(path, side, dropout) for path, side in _BACKBONES.get(architecture, [])]
    for path, side, rate in places if architecture != "arm" else _ARM:
        pattern = re.compile(re.escape(prefix + path).replace(r"\#", r"\d+"))
        for name, module in network.named_modules():
            if pattern.fullmatch(name):
                _hook(module, side, rate)


def _trainable(norm: ChannelNorm) -> TrainingNorm:
    made = TrainingNorm(norm.weight.shape[0])
    made.load_state_dict(norm.state_dict())
    return made


def _hook(module: nn.Module, side: str, rate: float) -> None:
    def before(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        return (functional.dropout(given[0], rate, module.training), *given[1:])

    def after(module: nn.Module, given: Any, output: Tensor) -> Tensor:
        return functional.dropout(output, rate, module.training)

    if side == IN:
        module.register_forward_pre_hook(before)
    else:
        module.register_forward_hook(after)
