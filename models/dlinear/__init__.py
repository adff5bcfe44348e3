"""DLinear (Zeng et al., AAAI 2023): a forecaster, and a backbone of LIFT and of ARM."""

from __future__ import annotations

from models.dlinear.checkpoint import config_from_tensors, restore, slots, translate
from models.dlinear.config import DLinearConfig, parse_config
from models.dlinear.network import DLinear, build
from models.forecasting.architecture import Architecture
from models.forecasting.settings_name import read_labelled

ARCHITECTURE = Architecture(
    name="dlinear",
    title="Are Transformers Effective for Time Series Forecasting?",
    venue="AAAI 2023",
    paper_url="https://arxiv.org/abs/2205.13504",
    official_repo="SJTU-Quant/LIFT",  # whose copy of the network the golden cases were computed with
    official_commit="5e16e030d9c71f8adcda07dfcd683521552f1f18",
    licence="none stated",
    takes_marks=False,
    any_variates=False,
    marker="Linear_Trend.weight",
    parse_config=parse_config,
    config_from_directory=read_labelled,
    config_from_tensors=config_from_tensors,
    build=build,
    translate=translate,
    restore=restore,
    scaler_reason=lambda config: "does not normalise its windows",
)

__all__ = ["ARCHITECTURE", "DLinear", "DLinearConfig", "config_from_tensors", "parse_config", "slots"]
