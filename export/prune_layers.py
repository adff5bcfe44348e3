"""One decoder layer after another: load it dense, prune it, put it on disk, and run what was put there.

The next layer's calibration activations come from the stored layer, in the stored precision. A resumed run replays
stored layers, so that it computes the same numbers and writes the same bytes as one that was never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from export.llm_folder import ModelFolder
from export.llm_layers import LAYERS, LayerwiseNetwork
from export.progress import Report
from export.prune_plan import findings
from export.prune_work import Work, WorkLayers, layer_stem
from models.llm.walk import Entry, enter, run_layer
from models.pruning.aligned import Aligned, shrink_by_score
from models.pruning.calibration import observe, unobserved
from models.pruning.folding import fold_mlp
from models.pruning.layerwise import Pruned, Recipe, prune_layer
from models.pruning.structured_magnitude import cut_by_norm

GATHER, FOLDED, NONE = "gather", "folded", "none"
ORDER = "order."  # prefix of permutations among a layer's tensors


@dataclass
class LayerFacts:
    """What was done to a layer: facts per matrix (by projection name), and orders that inputs must be gathered in."""

    matrices: dict[str, dict[str, Any]] = field(default_factory=dict)
    orders: dict[str, Tensor] = field(default_factory=dict)


Operation = Callable[[nn.Module, Tensor | None, dict[str, Any]], LayerFacts]


def masking(recipe: Recipe) -> Operation:
    """Mask by score; permutations of down's inputs are folded into gate and up, which is exact."""

    def operate(layer: nn.Module, hidden: Tensor | None, arguments: dict[str, Any]) -> LayerFacts:
        facts = LayerFacts()
        for outcome in prune_layer(layer, hidden, arguments, recipe):
            facts.matrices[outcome.name] = _matrix_facts(layer, outcome, facts.orders)
        return facts

    return operate


def _matrix_facts(layer: nn.Module, outcome: Pruned, orders: dict[str, Tensor]) -> dict[str, Any]:
    facts: dict[str, Any] = {"permutation": NONE}
    if outcome.order is not None:
        if outcome.name == "mlp.down_proj":
            mlp = [layer.get_submodule(f"mlp.{part}_proj") for part in ("gate", "up", "down")]
            gate, up, down = (part for part in mlp if isinstance(part, nn.Linear))
            fold_mlp(gate, up, down, outcome.order)
            facts["permutation"] = FOLDED
        else:
            orders[outcome.name] = outcome.order
            facts["permutation"] = GATHER
        facts["retained_score_gain"] = outcome.score_after / outcome.score_before - 1
    return facts


def shrinking(aligned: Aligned, method: str, power: float, *, reads_text: bool) -> Operation:
    """Remove aligned MLP channels and attention groups by score; a dense layer cannot be lent again after that."""

    def operate(layer: nn.Module, hidden: Tensor | None, arguments: dict[str, Any]) -> LayerFacts:
        statistics = observe(layer, hidden, arguments) if reads_text and hidden is not None else unobserved(layer)
        shrink_by_score(layer, statistics, method, aligned, power)
        return LayerFacts()

    return operate


def cutting(threshold: float) -> Operation:
    """Zero rows and columns by their norm."""
    from models.llm.blocks import projections

    def operate(layer: nn.Module, hidden: Tensor | None, arguments: dict[str, Any]) -> LayerFacts:
        for one in projections(layer):
            cut_by_norm(one.linear, threshold)
        return LayerFacts()

    return operate


@dataclass(frozen=True)
class LayerRun:
    """The networks and folders a run walks through. pruned: shaped as the result is."""

    source: ModelFolder
    dense: LayerwiseNetwork
    pruned: LayerwiseNetwork
    work: Work

    def prune(self, operation: Operation, windows: Tensor | None, report: Report) -> None:
        """Every layer in order; windows int64 [n, T], or None where no activations are read."""
        entry = None if windows is None else enter(self.dense.network, windows)
        hidden = None if entry is None else entry.hidden
        count = len(self.dense.layers)
        for index in range(count):
            report("prune layers", index, count)
            arguments = {} if entry is None else entry.arguments[index]
            if not self.work.has(layer_stem(index)):
                with self.dense.layer(index, self.source) as layer, findings():
                    facts = operation(layer, hidden, arguments)
                    self.store(index, layer, facts)
            hidden = self._next(index, hidden, entry)
        report("prune layers", count, count)

    @torch.no_grad()
    def store(self, index: int, layer: nn.Module, facts: LayerFacts) -> None:
        """Put a layer on disk in the precision it came in."""
        tensors = {
            f"{LAYERS}{index}.{name}": tensor.to(self.source.read(f"{LAYERS}{index}.{name}").dtype)
            for name, tensor in layer.state_dict().items()
        }
        orders = {f"{ORDER}{LAYERS}{index}.{name}.weight": order for name, order in facts.orders.items()}
        self.work.save(layer_stem(index), tensors | orders, {"matrices": facts.matrices})

    def _next(self, index: int, hidden: Tensor | None, entry: Entry | None) -> Tensor | None:
        """What enters the next layer; nothing enters one after the last."""
        if hidden is None or entry is None or index + 1 == len(self.dense.layers):
            return hidden
        with self.pruned.layer(index, WorkLayers(self.work)) as layer:
            return run_layer(layer, hidden, entry.arguments[index])
