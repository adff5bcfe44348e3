"""iTransformer: inverted transformers for time series forecasting."""

from __future__ import annotations

from models.forecasting.architecture import Architecture
from models.forecasting.settings_name import read_shifted
from models.itransformer.checkpoint import config_from_tensors, restore, translate
from models.itransformer.config import ITransformerConfig, parse_config
from models.itransformer.network import ITransformer, build

ARCHITECTURE = Architecture(
    name="itransformer",
    title="iTransformer: Inverted Transformers Are Effective for Time Series Forecasting",
    venue="ICLR 2024",
    paper_url="https://arxiv.org/abs/2310.06625",
    official_repo="thuml/iTransformer",
    official_commit="c2426e68ca13f74aaec08045c5c724d8ad328124",
    licence="MIT",
    takes_marks=True,
    any_variates=True,
    marker="enc_embedding.value_embedding.weight",
    parse_config=parse_config,
    config_from_directory=read_shifted,
    config_from_tensors=config_from_tensors,
    build=build,
    translate=translate,
    restore=restore,
    scaler_reason=lambda config: None if config.use_norm else "was trained with use_norm 0",
)

__all__ = ["ARCHITECTURE", "ITransformer", "ITransformerConfig"]
