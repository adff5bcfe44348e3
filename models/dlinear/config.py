"""DLinear's hyper-parameters under the official names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.forecasting.hyperparameters import positive_int, switch
from models.forecasting.sizes import ForecasterSizes


@dataclass(frozen=True, kw_only=True)
class DLinearConfig(ForecasterSizes):
    """Sizes and options of one DLinear."""

    individual: bool = False  # two linear maps of its own for every variate


def parse_config(official: Mapping[str, Any]) -> DLinearConfig:
    """Official hyper-parameters -> configuration; unknown names are ignored. Raises ConfigError naming the field."""
    return DLinearConfig(
        seq_len=positive_int(official, "seq_len"),
        pred_len=positive_int(official, "pred_len"),
        enc_in=positive_int(official, "enc_in", remedy="Give the number of columns of the training data."),
        individual=switch(official, "individual", default=False),
    )
