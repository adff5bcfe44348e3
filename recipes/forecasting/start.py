"""The network a run begins with: starting values as the official programs draw them, or a trained backbone inside LIFT.

LIFT starts where its backbone stands: the mixing layer is zero, every filter lets everything pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from export.checkpoints import read_checkpoint
from export.hyperparameters import Stated, gather
from models.forecasting.architecture import Architecture, ForecasterConfig
from models.forecasting.registry import architecture
from models.lift.backbones import BACKBONES
from models.lift.config import LIGHT
from models.lift.network import Lift
from recipes.forecasting.regularise import prepare
from recipes.forecasting.settings import Settings, SettingsError

SMALL = 1e-2  # standard deviation of starting positions and leading tokens


def configure(settings: Settings, columns: int) -> tuple[Architecture, ForecasterConfig]:
    """The architecture and its configuration; LIFT takes its backbone's sizes from the file beside its checkpoint."""
    record = architecture(settings.architecture)
    official: dict[str, Any] = {"enc_in": columns, **settings.network}
    if settings.backbone is not None:
        official = {**_stated_backbone(settings), **official}
    return record, record.parse_config(official)


def begin(settings: Settings, record: Architecture, config: ForecasterConfig) -> nn.Module:
    """The network in training mode, seeded, with dropout and batch statistics where the papers have them."""
    torch.manual_seed(settings.training.seed)
    network = record.build(config).requires_grad_(True)
    _scatter(network)
    if isinstance(network, Lift):
        _begin_lift(settings, network)
    else:
        prepare(network, record.name, settings.training.dropout)
    return network.train()


def _scatter(network: nn.Module) -> None:
    for name, parameter in network.named_parameters():
        if name.rpartition(".")[2] in ("position", "leading"):
            nn.init.normal_(parameter, std=SMALL)


def _begin_lift(settings: Settings, lift: Lift) -> None:
    factory = lift.refiner.factory
    if hasattr(factory, "mix"):
        nn.init.ones_(factory.mix.bias)
    else:
        nn.init.normal_(factory.mix_weight, std=SMALL)
        nn.init.ones_(factory.mix_bias)
    if lift.config.backbone == LIGHT:
        return
    record = BACKBONES[lift.config.backbone]
    if settings.backbone is not None:
        checkpoint = read_checkpoint(settings.backbone)
        inner = record.parse_config(lift.config.inner)
        lift.backbone.load_state_dict(record.translate(checkpoint.state, inner).state)
    prepare(lift, record.name, settings.training.dropout, "backbone.")
    lift.backbone.requires_grad_(settings.training.backbone_rate > 0)


def _stated_backbone(settings: Settings) -> Mapping[str, Any]:
    """The backbone's own hyper-parameters, as the JSON beside its checkpoint states them."""
    assert settings.backbone is not None
    name = settings.network.get("model", LIGHT)
    if name not in BACKBONES:
        raise SettingsError(f"network: model is {name!r}, a backbone checkpoint needs one of {', '.join(BACKBONES)}")
    beside = settings.backbone.with_suffix(".json")
    stated = Stated(config=beside if beside.exists() else None)
    return gather(BACKBONES[name], read_checkpoint(settings.backbone), stated).official


def freeze_norms(network: nn.Module) -> None:
    """A frozen backbone keeps its stored statistics and drops nothing: it stays in evaluation mode."""
    if isinstance(network, Lift) and not any(p.requires_grad for p in network.backbone.parameters()):
        network.backbone.eval()
