"""Golden cases of forecasters: official configuration and state dict in, forecast and every intermediate out.

Intermediates are watched with forward hooks, so the networks carry no code for it. Expected names per system:
iTransformer: forecast, tokens, layer_<i>, encoder, attn_<i> (softmax weights [B, heads, tokens, tokens]);
CARD: forecast, channel_attention_<i>, token_attention_<i>, block_<i> (flattened to [B*N, tokens, d_model]).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from export.golden.case import CaseError, GoldenCase
from export.golden.compare import OutputResult
from export.golden.outputs import forecast_first
from models.forecasting.architecture import Architecture
from models.forecasting.registry import architecture

OUTPUT = "forecast"
WATCHED: dict[str, dict[str, str]] = {  # system -> output name (# = layer number) -> our module
    "itransformer": {
        "tokens": "embed",
        "layer_#": "layers.#",
        "attn_#": "layers.#.attention.softmax",
        "encoder": "norm",
    },
    "card": {
        "channel_attention_#": "blocks.#.over_channels",
        "token_attention_#": "blocks.#.over_tokens",
        "block_#": "blocks.#",
    },
}


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours. Raises ConfigError, CheckpointError or CaseError where a case is unusable."""
    produced = {
        name: made.reshape(-1, *made.shape[2:]) if _flattened(name) else made for name, made in answers(case).items()
    }
    return forecast_first(case, produced)


def answers(case: GoldenCase) -> dict[str, Tensor]:
    """Run the case through our network: output name -> tensor."""
    found = architecture(case.system)
    inputs = case.group("input")
    if "x_enc" not in inputs:
        raise CaseError(f"{case.tensors_path.name}: input.x_enc is missing")
    network = _network(found, case, variates=inputs["x_enc"].shape[-1])
    arguments = [inputs["x_enc"], inputs.get("x_mark_enc")] if found.takes_marks else [inputs["x_enc"]]
    watched: dict[str, Tensor] = {}
    handles = [module.register_forward_hook(_keep(watched, name)) for name, module in _modules(case.system, network)]
    with torch.inference_mode():
        watched[OUTPUT] = network(*arguments)
    for handle in handles:
        handle.remove()
    return watched


def _network(found: Architecture, case: GoldenCase, variates: int) -> nn.Module:
    """Built from the case's configuration; what it leaves out comes from the tensors, enc_in last from the input."""
    state = case.group("state")
    known = {"enc_in": variates} | found.config_from_tensors(state) | case.config
    config = found.parse_config(known)
    network = found.build(config)
    network.load_state_dict(found.translate(state, config).state, strict=True)
    return network


def _modules(system: str, network: nn.Module) -> list[tuple[str, nn.Module]]:
    """(output name, module) for every watched module of this network."""
    found = []
    for output, template in WATCHED[system].items():
        pattern = re.compile(re.escape(template).replace(r"\#", r"(\d+)"))
        for path, module in network.named_modules():
            if match := pattern.fullmatch(path):
                found.append((output.replace("#", match[1]) if match.groups() else output, module))
    return found


def _keep(store: dict[str, Tensor], name: str) -> Callable[[nn.Module, Any, Tensor], None]:
    def hook(module: nn.Module, arguments: Any, output: Tensor) -> None:
        store[name] = output

    return hook


def _flattened(name: str) -> bool:
    """CARD's block outputs are recorded with batch and variates in one axis."""
    return name.startswith("block_")
