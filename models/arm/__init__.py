"""ARM: refining multivariate forecasting with adaptive temporal-contextual learning."""

from __future__ import annotations

from models.arm.checkpoint import config_from_tensors, restore, translate
from models.arm.config import ArmConfig, parse_config
from models.arm.network import Arm, build
from models.forecasting.architecture import Architecture
from models.forecasting.settings_name import read_labelled

ARCHITECTURE = Architecture(
    name="arm",
    title="ARM: Refining Multivariate Forecasting with Adaptive Temporal-Contextual Learning",
    venue="ICLR 2024",
    paper_url="https://arxiv.org/abs/2310.09488",
    official_repo="LJC-FVNR/ARM",
    official_commit="04646cdd87c73611b8da3ed53d24ed146fce26e3",
    licence="MIT",
    takes_marks=True,
    any_variates=False,
    marker="MoE_init.0.switch.weight",
    parse_config=parse_config,
    config_from_directory=read_labelled,
    config_from_tensors=config_from_tensors,
    build=build,
    translate=translate,
    restore=restore,
    scaler_reason=lambda config: "continues its history with zeros, which are means of the training rows",
    reads_marks=lambda config: config.marks > 0,
    marks_ahead=True,
)

__all__ = ["ARCHITECTURE", "Arm", "ArmConfig"]
