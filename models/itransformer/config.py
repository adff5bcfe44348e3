"""iTransformer's hyper-parameters under the official names.

Sizes have no default: a wrong guess would load or fail far from its cause. Options default to what the official
scripts use. `enc_in` is recorded, not enforced: no weight depends on the number of variates.
Without effect on a forecast, hence ignored: class_strategy, embed, freq, factor, dropout, label_len, output_attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from models.forecasting.architecture import ConfigError
from models.forecasting.hyperparameters import choice, positive_int, switch

ACTIVATIONS = ("gelu", "relu")


@dataclass(frozen=True, kw_only=True)
class ITransformerConfig:
    """Sizes and options of one iTransformer."""

    seq_len: int  # L, look-back
    pred_len: int  # H, horizon
    enc_in: int  # N, variates of the training data
    d_model: int  # D, token width
    n_heads: int
    e_layers: int
    d_ff: int  # width of the feed-forward part
    activation: str = "gelu"  # exact (erf) GELU, or relu
    use_norm: bool = True  # normalise every window and undo it on the way out

    def __post_init__(self) -> None:
        if self.n_heads > self.d_model:
            remedy = "Every head needs a width of 1 or more (d_model // n_heads)."
            raise ConfigError("n_heads", self.n_heads, f"at most d_model = {self.d_model}", remedy)

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

    @property
    def head_dim(self) -> int:
        """Width of one head, rounded down: the official code drops the remainder of d_model / n_heads."""
        return self.d_model // self.n_heads

    def official(self) -> dict[str, Any]:
        """Every hyper-parameter under its official name."""
        return asdict(self) | {"use_norm": int(self.use_norm)}


def parse_config(official: Mapping[str, Any]) -> ITransformerConfig:
    """Official hyper-parameters -> configuration; unknown names are ignored. Raises ConfigError naming the field."""
    return ITransformerConfig(
        seq_len=positive_int(official, "seq_len"),
        pred_len=positive_int(official, "pred_len"),
        enc_in=positive_int(official, "enc_in", remedy="Give the number of columns of the training data."),
        d_model=positive_int(official, "d_model"),
        n_heads=positive_int(official, "n_heads"),
        e_layers=positive_int(official, "e_layers"),
        d_ff=positive_int(official, "d_ff"),
        activation=choice(
            official,
            "activation",
            ACTIVATIONS,
            default="gelu",
            remedy='The official code runs GELU for every word but "relu"; say "gelu" to get the same.',
        ),
        use_norm=switch(official, "use_norm", default=True),
    )
