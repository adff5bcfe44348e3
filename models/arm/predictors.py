"""The networks ARM is put around, by their official names, with the sizes ARM gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from models import dlinear, patchtst
from models.dlinear import DLinearConfig
from models.patchtst import PatchTSTConfig
from models.statedict import Slot

if TYPE_CHECKING:
    from models.arm.config import ArmConfig


@dataclass(frozen=True)
class Predictor:
    """build: ARM's configuration -> network [B, L, D] -> [B, H, D]; slots: its tensors, given both prefixes."""

    build: Callable[[ArmConfig], nn.Module]
    slots: Callable[[ArmConfig, str, str], list[Slot]]


def width(config: ArmConfig) -> int:
    """D: columns and their mixtures."""
    return config.enc_in + config.mixtures


def _dlinear(config: ArmConfig) -> DLinearConfig:
    return DLinearConfig(
        seq_len=config.seq_len, pred_len=config.pred_len, enc_in=width(config), individual=config.individual
    )


def _patchtst(config: ArmConfig) -> PatchTSTConfig:
    return PatchTSTConfig(
        seq_len=config.seq_len,
        pred_len=config.pred_len,
        enc_in=width(config),
        d_model=config.d_model,
        n_heads=4,
        e_layers=3,
        d_ff=4 * config.d_model,
        individual=config.individual,
        affine=config.affine,
        subtract_last=config.subtract_last,
        decomposition=config.decomposition,
        kernel_size=config.kernel_size,
        padding_patch=config.padding_patch,
    )


PREDICTORS: dict[str, Predictor] = {
    "DLinear": Predictor(
        lambda config: dlinear.DLinear(_dlinear(config)),
        lambda config, official, ours: dlinear.slots(_dlinear(config), official, ours),
    ),
    "PatchTST": Predictor(
        lambda config: patchtst.PatchTST(_patchtst(config)),
        lambda config, official, ours: patchtst.slots(_patchtst(config), official, ours),
    ),
}
