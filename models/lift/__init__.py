"""LIFT: rethinking channel dependence for multivariate forecasting, learning from leading indicators."""

from __future__ import annotations

from models.forecasting.architecture import Architecture
from models.forecasting.settings_name import read_labelled
from models.lift.checkpoint import config_from_tensors, restore, translate
from models.lift.config import LiftConfig, parse_config
from models.lift.network import Lift, build

ARCHITECTURE = Architecture(
    name="lift",
    title="Rethinking Channel Dependence for Multivariate Time Series Forecasting: Learning from Leading Indicators",
    venue="ICLR 2024",
    paper_url="https://arxiv.org/abs/2401.17548",
    official_repo="SJTU-Quant/LIFT",
    official_commit="5e16e030d9c71f8adcda07dfcd683521552f1f18",
    licence="none stated",
    takes_marks=True,
    any_variates=False,
    marker="lead_refiner.temperature",
    parse_config=parse_config,
    config_from_directory=read_labelled,
    config_from_tensors=config_from_tensors,
    build=build,
    translate=translate,
    restore=restore,
    reads_marks=lambda config: config.backbone_marks,
)

__all__ = ["ARCHITECTURE", "Lift", "LiftConfig"]
