"""CARD's hyper-parameters under the official names, for all three official variants (l96, l720, m4).

Sizes have no default; options default to the official scripts' defaults, which the three variants share.
Without effect on a forecast, hence ignored: variant, dropout, momentum, label_len, factor, embed, and the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.forecasting.architecture import ConfigError
from models.forecasting.hyperparameters import choice, positive_int, switch, unit_interval
from models.forecasting.sizes import ForecasterSizes

FORECAST_TASKS = ("long_term_forecast", "short_term_forecast")


@dataclass(frozen=True, kw_only=True)
class CardConfig(ForecasterSizes):
    """Sizes and options of one CARD. The order of the training data's variates matters."""

    d_model: int  # D, token width
    n_heads: int
    d_ff: int
    e_layers: int
    patch_len: int = 16  # time steps in one patch
    stride: int = 8  # time steps between the starts of two patches
    dp_rank: int = 8  # rows the keys and values of channel attention are summarised into
    merge_size: int = 2  # heads mixed with one another when they are put together
    alpha: float = 0.5  # smoothing factor of the moving average over tokens
    use_statistic: bool = False  # leading token from the window's mean and deviation instead of a learned one

    def __post_init__(self) -> None:
        self._check_heads()
        if self.seq_len < 2:
            raise ConfigError("seq_len", self.seq_len, "2 or more", "One step has no standard deviation.")
        if self.seq_len < self.patch_len:
            remedy = "Lower patch_len or lengthen the window: not one patch fits into it."
            raise ConfigError("patch_len", self.patch_len, f"at most seq_len = {self.seq_len}", remedy)

    def _check_heads(self) -> None:
        if self.d_model % self.n_heads:
            remedy = "Queries, keys and values are cut into heads of equal width."
            raise ConfigError("n_heads", self.n_heads, f"a divisor of d_model = {self.d_model}", remedy)
        if self.n_heads % self.merge_size:
            remedy = (
                "The official code cannot run this either: heads are merged in groups of merge_size. Its l720 script "
                "for electricity (8 heads, merge_size 16) stops here; find out what the training run really used."
            )
            raise ConfigError("merge_size", self.merge_size, f"a divisor of n_heads = {self.n_heads}", remedy)

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads

    @property
    def patches(self) -> int:
        """Patches a window is cut into; steps left over at its end are not read (96, 16, 8 -> 11 patches)."""
        return (self.seq_len - self.patch_len) // self.stride + 1

    @property
    def tokens(self) -> int:
        """Tokens of one variate: the leading one and one a patch."""
        return self.patches + 1

    @property
    def max_variates(self) -> int:
        """Most variates a window may have: the side of the smoothing matrix."""
        return max(self.enc_in, self.tokens, self.dp_rank)


def parse_config(official: Mapping[str, Any]) -> CardConfig:
    """Official hyper-parameters -> configuration; unknown names are ignored. Raises ConfigError naming the field."""
    other_task = "Only forecasting checkpoints are served: the other tasks have another output layer."
    choice(official, "task_name", FORECAST_TASKS, default=FORECAST_TASKS[0], remedy=other_task)
    sizes = {
        name: positive_int(official, name) for name in ("seq_len", "pred_len", "d_model", "n_heads", "d_ff", "e_layers")
    }
    return CardConfig(
        **sizes,
        enc_in=positive_int(official, "enc_in", remedy="Give the number of columns of the training data."),
        patch_len=positive_int(official, "patch_len", default=CardConfig.patch_len),
        stride=positive_int(official, "stride", default=CardConfig.stride),
        dp_rank=positive_int(official, "dp_rank", default=CardConfig.dp_rank),
        merge_size=positive_int(official, "merge_size", default=CardConfig.merge_size),
        alpha=unit_interval(official, "alpha", default=CardConfig.alpha),
        use_statistic=switch(official, "use_statistic", default=CardConfig.use_statistic),
    )
