"""iTransformer's hyper-parameters under the official names.

Sizes have no default: a wrong guess would load or fail far from its cause. Options default to what the official
scripts use. `enc_in` is recorded, not enforced: no weight depends on the number of variates.
Without effect on a forecast, hence ignored: class_strategy, embed, freq, factor, dropout, label_len, output_attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.forecasting.hyperparameters import choice, positive_int, switch
from models.forecasting.sizes import ForecasterSizes, check_heads

ACTIVATIONS = ("gelu", "relu")


@dataclass(frozen=True, kw_only=True)
class ITransformerConfig(ForecasterSizes):
    """Sizes and options of one iTransformer."""

    d_model: int  # D, token width
    n_heads: int
    e_layers: int
    d_ff: int  # width of the feed-forward part
    activation: str = "gelu"  # exact (erf) GELU, or relu
    use_norm: bool = True  # normalise every window and undo it on the way out

    def __post_init__(self) -> None:
        check_heads(self.n_heads, self.d_model)

    @property
    def head_dim(self) -> int:
        """Width of one head, rounded down: the official code drops the remainder of d_model / n_heads."""
        return self.d_model // self.n_heads

    def official(self) -> dict[str, Any]:
        """Every hyper-parameter under its official name."""
        return super().official() | {"use_norm": int(self.use_norm)}


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
