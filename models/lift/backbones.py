"""The backbones LIFT is put around, by their official names."""

from __future__ import annotations

from torch import nn

from models import card, dlinear, itransformer, patchtst
from models.forecasting.architecture import Architecture
from models.lift.config import LIGHT, LiftConfig

BACKBONES: dict[str, Architecture] = {  # official `model` -> the network's record
    "DLinear": dlinear.ARCHITECTURE,
    "PatchTST": patchtst.ARCHITECTURE,
    "iTransformer": itransformer.ARCHITECTURE,
    "CARD": card.ARCHITECTURE,
}


def build_backbone(config: LiftConfig) -> nn.Module:
    """[B, L, N] -> [B, H, N]; LightMTS's linear map works on [B, N, L] -> [B, N, H]."""
    if config.backbone == LIGHT:
        return nn.Linear(config.seq_len, config.pred_len)
    known = BACKBONES[config.backbone]
    return known.build(known.parse_config(config.inner))
