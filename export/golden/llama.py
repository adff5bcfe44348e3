"""Llama networks of golden cases: official hyper-parameters and state dict in, transformers' own network out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from export.golden.case import CaseError, GoldenCase
from export.hugging_face import transformers


def case_network(case: GoldenCase) -> nn.Module:
    """float32, evaluation mode, the case's weights. Raises CaseError where tensors and hyper-parameters disagree."""
    library = transformers()
    settings = library.LlamaConfig(**{"max_position_embeddings": 2048} | _official(case))
    network: Any = library.LlamaForCausalLM(settings)
    network.eval()
    try:
        network.load_state_dict(_state(case), strict=True)
    except RuntimeError as error:
        raise CaseError(f"{case.path.name}: state dict and configuration disagree ({error})") from error
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    found: nn.Module = network
    return found


@torch.no_grad()
def case_logits(network: nn.Module, ids: Tensor) -> Tensor:
    """int64 [n, T] -> float32 [n, T, V]."""
    logits: Tensor = network(input_ids=ids, use_cache=False).logits
    return logits


def _official(case: GoldenCase) -> dict[str, Any]:
    """The hyper-parameters of the network itself; the rest of the configuration speaks of pruning."""
    known = set(transformers().LlamaConfig().to_dict()) | {"rope_theta"}
    return {name: value for name, value in case.config.items() if name in known and name != "model_type"}


def _state(case: GoldenCase) -> dict[str, Tensor]:
    state = case.group("state")
    if case.config.get("tie_word_embeddings") and "lm_head.weight" not in state:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state
