"""The backbones LIFT is put around, by their official names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from models import card, dlinear, itransformer, patchtst, statedict
from models.forecasting.architecture import Architecture
from models.lift.config import LIGHT, LiftConfig
from models.statedict import Translation


@dataclass(frozen=True)
class Backbone:
    """How one backbone is configured, built, and found in a state dict whose names have no prefix.

    parse      official hyper-parameters -> configuration with `official()`; raises ConfigError
    translate  state dict, configuration -> Translation; raises CheckpointError
    tensors    state dict -> the hyper-parameters its shapes settle; raises CheckpointError
    """

    parse: Callable[[Mapping[str, Any]], Any]
    build: Callable[[Any], nn.Module]
    translate: Callable[[Mapping[str, Tensor], Any], Translation]
    tensors: Callable[[Mapping[str, Tensor]], dict[str, Any]]


_HINT = "check the backbone's hyper-parameters named above, and `model`"


def _of(record: Architecture) -> Backbone:
    return Backbone(record.parse_config, record.build, record.translate, record.config_from_tensors)


BACKBONES: dict[str, Backbone] = {
    "DLinear": Backbone(
        dlinear.parse_config,
        dlinear.DLinear,
        lambda state, config: statedict.translate(state, dlinear.slots(config, "", ""), _HINT),
        dlinear.config_from_tensors,
    ),
    "PatchTST": Backbone(
        patchtst.parse_config,
        patchtst.PatchTST,
        lambda state, config: statedict.translate(state, patchtst.slots(config, "", ""), _HINT),
        patchtst.config_from_tensors,
    ),
    "iTransformer": _of(itransformer.ARCHITECTURE),
    "CARD": _of(card.ARCHITECTURE),
}


def build_backbone(config: LiftConfig) -> nn.Module:
    """[B, L, N] -> [B, H, N]; LightMTS's linear map works on [B, N, L] -> [B, N, H]."""
    if config.backbone == LIGHT:
        return nn.Linear(config.seq_len, config.pred_len)
    known = BACKBONES[config.backbone]
    return known.build(known.parse(config.inner))
