"""DLinear's hyper-parameters under the official names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from models.forecasting.hyperparameters import positive_int, switch


@dataclass(frozen=True, kw_only=True)
class DLinearConfig:
    """Sizes and options of one DLinear."""

    seq_len: int  # L, look-back
    pred_len: int  # H, horizon
    enc_in: int  # N, variates
    individual: bool = False  # two linear maps of its own for every variate

    @property
    def look_back(self) -> int:
        """L."""
        return self.seq_len

    @property
    def horizon(self) -> int:
        """H."""
        return self.pred_len

    @property
    def variates(self) -> int:
        """N of the training data."""
        return self.enc_in

    def official(self) -> dict[str, Any]:
        """Every hyper-parameter under its official name."""
        return asdict(self)


def parse_config(official: Mapping[str, Any]) -> DLinearConfig:
    """Official hyper-parameters -> configuration; unknown names are ignored. Raises ConfigError naming the field."""
    return DLinearConfig(
        seq_len=positive_int(official, "seq_len"),
        pred_len=positive_int(official, "pred_len"),
        enc_in=positive_int(official, "enc_in", remedy="Give the number of columns of the training data."),
        individual=switch(official, "individual", default=False),
    )
