"""DLinear's official state dict, behind any prefix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from models import statedict
from models.dlinear.config import DLinearConfig
from models.statedict import Slot, Translation, axis_of, linear

HINT = "check the hyper-parameters named above, and that this is a checkpoint of DLinear"
_PARTS = (("Linear_Seasonal", "remainder"), ("Linear_Trend", "trend"))


def translate(state: Mapping[str, Tensor], config: DLinearConfig) -> Translation:
    """Official tensors -> ours. Raises CheckpointError naming missing, unexpected and contradicting tensors."""
    return statedict.translate(state, slots(config), HINT)


def restore(state: Mapping[str, Tensor], config: DLinearConfig) -> dict[str, Tensor]:
    """Ours -> the official state dict."""
    return statedict.restore(state, slots(config))


def slots(config: DLinearConfig, official: str = "", ours: str = "") -> list[Slot]:
    """Expected tensors; `official` and `ours` are prefixes, both empty or ending in a dot."""
    found = []
    for name, part in _PARTS:
        for i in range(config.enc_in if config.individual else 1):
            stem = f"{official}{name}.{i}" if config.individual else f"{official}{name}"
            found += linear(stem, f"{ours}{part}.maps.{i}", (config.pred_len, "pred_len"), (config.seq_len, "seq_len"))
    return found


def config_from_tensors(state: Mapping[str, Tensor], prefix: str = "") -> dict[str, Any]:
    """seq_len, pred_len and individual; enc_in where every variate has a map of its own."""
    individual = f"{prefix}Linear_Trend.0.weight" in state
    weight = f"{prefix}Linear_Trend.0.weight" if individual else f"{prefix}Linear_Trend.weight"
    found: dict[str, Any] = {
        "pred_len": axis_of(state, weight, 0),
        "seq_len": axis_of(state, weight, 1),
        "individual": individual,
    }
    if individual:
        found["enc_in"] = sum(name.startswith(f"{prefix}Linear_Trend.") and name.endswith(".weight") for name in state)
    return found
