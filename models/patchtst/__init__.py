"""PatchTST (Nie et al., ICLR 2023): a forecaster, and a backbone of LIFT and of ARM."""

from __future__ import annotations

from models.forecasting.architecture import Architecture
from models.forecasting.settings_name import read_labelled
from models.patchtst.checkpoint import config_from_tensors, restore, slots, translate
from models.patchtst.config import PatchTSTConfig, parse_config
from models.patchtst.network import PatchTST, build

ARCHITECTURE = Architecture(
    name="patchtst",
    title="A Time Series is Worth 64 Words: Long-term Forecasting with Transformers",
    venue="ICLR 2023",
    paper_url="https://arxiv.org/abs/2211.14730",
    official_repo="SJTU-Quant/LIFT",  # whose copy of the network the golden cases were computed with
    official_commit="5e16e030d9c71f8adcda07dfcd683521552f1f18",
    licence="none stated",
    takes_marks=False,
    any_variates=False,
    marker="backbone.W_P.weight",
    parse_config=parse_config,
    config_from_directory=read_labelled,
    config_from_tensors=config_from_tensors,
    build=build,
    translate=translate,
    restore=restore,
    scaler_reason=lambda config: None if config.revin else "was trained with revin 0",
)

__all__ = ["ARCHITECTURE", "PatchTST", "PatchTSTConfig", "config_from_tensors", "parse_config", "slots"]
