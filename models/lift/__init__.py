"""LIFT: rethinking channel dependence for multivariate forecasting, learning from leading indicators."""

from __future__ import annotations

from models.forecasting.architecture import Architecture
from models.forecasting.settings_name import read_labelled
from models.lift.backbones import BACKBONES
from models.lift.checkpoint import config_from_tensors, restore, translate
from models.lift.config import LIGHT, LiftConfig, parse_config
from models.lift.network import Lift, build


def look_back_reason(config: LiftConfig) -> str | None:
    """Why the exact estimator needs twice the look-back."""
    if not config.exact:
        return None
    steps = config.seq_len
    return f"the exact estimator compares the last {steps} steps with every window up to {steps} steps before them"


def scaler_reason(config: LiftConfig) -> str | None:
    """LightMTS normalises what it sees; over a backbone the filters of several variate states see scaled values."""
    if config.backbone == LIGHT:
        return None
    if config.state_num > 1:
        return "tells variate states apart by scaled values"
    record = BACKBONES[config.backbone]
    reason = record.scaler_reason(record.parse_config(config.inner))
    return None if reason is None else f"is put around a {record.name} that {reason}"


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
    look_back_reason=look_back_reason,
    scaler_reason=scaler_reason,
    reads_marks=lambda config: config.backbone_marks,
)

__all__ = ["ARCHITECTURE", "Lift", "LiftConfig"]
