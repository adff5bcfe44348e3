"""Golden cases of LIFT and ARM: official configuration and state dict in, forecast and every intermediate out.

Intermediates are watched with forward hooks, so the networks carry no code for it. LIFT cases hold the window `x`
alone (live estimator), or also the `history` the windows were cut from (exact estimator): window b of B ends
B - 1 - b steps before the history's end. ARM cases hold `x` and the `x_mark` of history and horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from export.golden.case import CaseError, GoldenCase
from export.golden.compare import OutputResult
from export.golden.outputs import forecast_first
from models import arm, lift
from models.forecasting.architecture import Architecture
from models.lift import Lift

OUTPUT = "forecast"
ARCHITECTURES = {record.name: record for record in (arm.ARCHITECTURE, lift.ARCHITECTURE)}


def run(case: GoldenCase) -> list[OutputResult]:
    """Every expected output against ours. Raises ConfigError, CheckpointError or CaseError where a case is unusable."""
    return forecast_first(case, answers(case))


def answers(case: GoldenCase) -> dict[str, Tensor]:
    """Run the case through our network: output name -> tensor."""
    found = ARCHITECTURES[case.system]
    inputs = case.group("input")
    if "x" not in inputs:
        raise CaseError(f"{case.tensors_path.name}: input.x is missing")
    extra = {"estimator": "exact" if "history" in inputs else "live"} if found.name == "lift" else {}
    network = _network(found, case, extra)
    watched = _watch(network)
    with torch.inference_mode():
        forecast = network(*_arguments(network, inputs))
    return {OUTPUT: forecast} | {name: made[-1 if name == "residual_expert" else 0] for name, made in watched.items()}


def _network(found: Architecture, case: GoldenCase, extra: dict[str, Any]) -> nn.Module:
    state = case.group("state")
    config = found.parse_config({**found.config_from_tensors(state), **case.config, **extra})
    network = found.build(config)
    network.load_state_dict(found.translate(state, config).state, strict=True)
    return network


def _arguments(network: nn.Module, inputs: dict[str, Tensor]) -> list[Tensor | None]:
    x = inputs["x"]
    if not isinstance(network, Lift):
        return [x, inputs.get("x_mark")]
    if not network.config.exact:
        return [x]
    rows, history = network.config.look_back, inputs["history"]
    needed = rows + len(x) - 1
    if len(history) < needed:
        raise CaseError(f"input.history: {len(history)} steps, {len(x)} windows of {rows} steps need {needed}")
    history = history[-needed:]
    return [torch.stack([history[b : b + rows] for b in range(len(x))])]


def _watch(network: nn.Module) -> dict[str, list[Tensor]]:
    """Hook every module whose output a case may name; what it made, in order of its calls."""
    watched: dict[str, list[Tensor]] = {}

    def keep(*names: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, arguments: Any, output: Any) -> None:
            parts = output if isinstance(output, tuple) else [output] * len(names)
            for name, part in zip(names, parts, strict=True):
                watched.setdefault(name, []).append(part)

        return hook

    for path, names in _LIFT if isinstance(network, Lift) else _ARM:
        module = dict(network.named_modules()).get(path)
        if module is not None:
            module.register_forward_hook(keep(*names))
    return watched


_LIFT = [
    ("backbone", ("backbone_forecast",)),
    ("estimator", ("leader_ids", "shift", "corr")),
    ("refiner.factory", ("filters",)),
    ("refiner.factory.softmax", ("state_prob",)),
    ("refiner.shifted", ("shifted_leaders",)),
]
_ARM = [
    ("norm.level", ("level",)),
    ("norm.scale", ("scale",)),
    ("experts", ("initial_guess", "residual_expert")),
    ("predictor.decoder", ("decoder",)),
    ("predictor.predictor", ("predictor",)),
]
