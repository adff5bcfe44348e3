"""One decoder layer at a time: what enters it, what leaves it, and logits from what left the last one.

In   ids     int64 [n, T]        n sequences of T tokens
     hidden  float [n, T, D]     what enters a layer
Out  logits  float [n, T, V]
Every layer is called with exactly the arguments its own network would give it (mask, rotary angles, whatever its kind
needs): they are recorded from one forward pass in which the layers themselves do nothing. So layers may still be on
the meta device, and only the one at work needs its weights: memory is one layer and the hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.llm.blocks import decoder_layers


@dataclass(frozen=True)
class Entry:
    """What the decoder hands to its layers: hidden states [n, T, D], and each layer's other arguments (for n = 1)."""

    hidden: Tensor
    arguments: list[dict[str, Any]]


@torch.no_grad()
def enter(network: nn.Module, ids: Tensor) -> Entry:
    """Embed sequences of one length and record what every layer is called with; no layer runs."""
    layers = decoder_layers(network)
    hidden: list[Tensor] = []
    arguments: list[dict[str, Any]] = [{} for _ in layers]

    def stand_in(index: int) -> Callable[..., Tensor]:
        def forward(entering: Tensor, **given: Any) -> Tensor:
            if index == 0:
                hidden.append(entering.detach())
            arguments[index] = given
            return entering

        return forward

    backbone: nn.Module = network.get_submodule("model")
    with _forwards([stand_in(index) for index in range(len(layers))], layers):
        for sequence in ids:
            backbone(input_ids=sequence[None], use_cache=False)
    return Entry(torch.cat(hidden), arguments)


@torch.no_grad()
def run_layer(layer: nn.Module, hidden: Tensor, arguments: dict[str, Any]) -> Tensor:
    """Pass every sequence through a layer, one by one: [n, T, D] -> [n, T, D]."""
    return torch.cat([call_layer(layer, sequence[None], arguments) for sequence in hidden])


def call_layer(layer: nn.Module, hidden: Tensor, arguments: dict[str, Any]) -> Tensor:
    """One call; layers of some networks answer with a tuple whose first entry is the hidden state."""
    answer = layer(hidden, **arguments)
    output: Tensor = answer[0] if isinstance(answer, tuple) else answer
    return output


@torch.no_grad()
def logits_after(network: nn.Module, ids: Tensor, hidden: Tensor) -> Tensor:
    """Logits [1, T, V] of one sequence [1, T] from what left its last layer [1, T, D]: norm, head, any scaling."""
    layers = decoder_layers(network)
    with _forwards([lambda *rest, **arguments: hidden] * len(layers), layers):
        logits: Tensor = network(input_ids=ids, use_cache=False).logits
    return logits


@contextmanager
def _forwards(forwards: list[Callable[..., Tensor]], layers: list[nn.Module]) -> Iterator[None]:
    """Let layers do something else for a while."""
    for layer, forward in zip(layers, forwards, strict=True):
        layer.__dict__["forward"] = forward  # found before the class's own method
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]
