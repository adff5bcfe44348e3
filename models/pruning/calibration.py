"""Statistics of every matrix of a layer from one pass of the calibration sequences through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from models.llm.blocks import projections
from models.llm.walk import run_layer
from models.pruning.activations import InputStatistics


def observe(
    layer: nn.Module, hidden: Tensor, arguments: dict[str, Any], *, with_gram: bool = False
) -> dict[str, InputStatistics]:
    """Statistics by projection name. hidden: float [n, T, D], what enters the layer."""
    statistics = unobserved(layer, with_gram=with_gram)
    handles = [one.linear.register_forward_pre_hook(_adding_to(statistics[one.name])) for one in projections(layer)]
    try:
        run_layer(layer, hidden, arguments)
    finally:
        for handle in handles:
            handle.remove()
    return statistics


def unobserved(layer: nn.Module, *, with_gram: bool = False) -> dict[str, InputStatistics]:
    """Statistics before any sequence: enough for scores that read weights alone."""
    return {one.name: InputStatistics(one.linear.in_features, with_gram=with_gram) for one in projections(layer)}


def _adding_to(statistics: InputStatistics) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    return lambda module, inputs: statistics.add(inputs[0])
