"""CARD: channel aligned robust blend transformer for time series forecasting."""

from __future__ import annotations

from typing import Any

from models.card.checkpoint import config_from_tensors, restore, translate
from models.card.config import CardConfig, parse_config
from models.card.network import Card, build
from models.forecasting.architecture import Architecture
from models.forecasting.settings_name import read_labelled, task_of


def config_from_directory(directory: str) -> dict[str, Any]:
    """What a settings directory says; enc_in, patches, dp_rank, merge_size, alpha are not in it."""
    task = task_of(directory)
    return read_labelled(directory) | ({"task_name": task} if task else {})


ARCHITECTURE = Architecture(
    name="card",
    title="CARD: Channel Aligned Robust Blend Transformer for Time Series Forecasting",
    venue="ICLR 2024",
    paper_url="https://arxiv.org/abs/2305.12095",
    official_repo="wxie9/CARD",
    official_commit="ca6d34bcf26355bfdb6fc05f49c66e7601817f66",
    licence="none stated",
    takes_marks=False,
    any_variates=False,
    marker="Attentions_over_token.0.qkv.weight",
    parse_config=parse_config,
    config_from_directory=config_from_directory,
    config_from_tensors=config_from_tensors,
    build=build,
    translate=translate,
    restore=restore,
)

__all__ = ["ARCHITECTURE", "Card", "CardConfig"]
