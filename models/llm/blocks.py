"""Where a Llama-style decoder keeps its parts.

    network.model.embed_tokens, .layers, .norm; network.lm_head
    layer.self_attn.{q,k,v,o}_proj, layer.mlp.{gate,up,down}_proj        nn.Linear, with or without bias
Llama, Mistral, Qwen2, Qwen3, SmolLM and their kin have this shape. Whatever else a layer holds (norms on queries and
keys, rotary variants) is run, not looked at. Mixtures of experts and fused projections are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

ATTENTION = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


class NotLlamaStyleError(ValueError):
    """The network lacks a part that pruning needs; the message names it."""


@dataclass(frozen=True)
class Projection:
    """One prunable matrix: its place inside the layer, and the layer itself."""

    name: str  # "mlp.down_proj"
    linear: nn.Linear


def decoder_layers(network: nn.Module) -> list[nn.Module]:
    """The decoder's layers in order. Raises NotLlamaStyleError."""
    layers = _part(network, "model.layers")
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        raise NotLlamaStyleError(f"model.layers: got {type(layers).__name__}, expected a list of layers. {_KNOWN}")
    return list(layers)


def projections(layer: nn.Module) -> list[Projection]:
    """The seven matrices of a layer, attention first. Raises NotLlamaStyleError where one is missing or not linear."""
    found = []
    for name in (*ATTENTION, *MLP):
        part = _part(layer, name)
        if not isinstance(part, nn.Linear):
            raise NotLlamaStyleError(f"{name}: got {type(part).__name__}, expected a linear layer. {_KNOWN}")
        found.append(Projection(name, part))
    others = {id(module) for module in layer.modules() if isinstance(module, nn.Linear)}
    if extra := others - {id(one.linear) for one in found}:
        raise NotLlamaStyleError(f"a layer holds {len(extra)} linear layers beyond the known seven. {_KNOWN}")
    return found


def matrix_name(layer: int, projection: str) -> str:
    """The matrix' name in a state dict: (3, "mlp.down_proj") -> "model.layers.3.mlp.down_proj.weight"."""
    return f"model.layers.{layer}.{projection}.weight"


def _part(module: nn.Module, path: str) -> nn.Module:
    try:
        return module.get_submodule(path)
    except AttributeError as error:
        raise NotLlamaStyleError(f"{path}: not there in {type(module).__name__}. {_KNOWN}") from error


_KNOWN = "Networks shaped like Llama can be pruned: Llama, Mistral, Qwen2, Qwen3, SmolLM."
