"""The three sizes every forecaster has, under their official names, and what is read from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from models.forecasting.architecture import ConfigError


@dataclass(frozen=True, kw_only=True)
class ForecasterSizes:
    """Base of the papers' configurations; they add their own sizes and options as fields."""

    seq_len: int  # L, look-back
    pred_len: int  # H, horizon
    enc_in: int  # N, variates of the training data

    @property
    def look_back(self) -> int:
        """L: rows of history a request must bring."""
        return self.seq_len

    @property
    def horizon(self) -> int:
        """H."""
        return self.pred_len

    @property
    def variates(self) -> int:
        """N."""
        return self.enc_in

    def official(self) -> dict[str, Any]:
        """Every hyper-parameter under its official name."""
        return asdict(self)


def check_heads(n_heads: int, d_model: int) -> None:
    """Heads are d_model // n_heads wide. Raises ConfigError where that is nothing."""
    if n_heads > d_model:
        remedy = "Every head needs a width of 1 or more (d_model // n_heads)."
        raise ConfigError("n_heads", n_heads, f"at most d_model = {d_model}", remedy)
