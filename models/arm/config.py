"""ARM's hyper-parameters under the official names.

Without effect on a forecast, hence ignored: dropouts, label_len of the built-in predictor, embed, freq, factor,
d_layers, distil, output_attention, and every option of the kernel smoothing (its convolutions are dead code).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models.arm.predictors import PREDICTORS
from models.forecasting.architecture import ConfigError
from models.forecasting.hyperparameters import choice, positive_int, switch
from models.forecasting.sizes import ForecasterSizes, check_heads

BUILT_IN = ("Default", "Vanilla")
_SWITCHES = (
    "auel_global_flag",
    "auel_distribution_flag",
    "moe_flag",
    "mkls_global_flag",
    "pre_mkls_flag",
    "post_mkls_flag",
    "predictor_mkls_flag",
)


@dataclass(frozen=True, kw_only=True)
class ArmConfig(ForecasterSizes):
    """Sizes and options of one ARM.

    predictor     Default: ARM's own encoder and decoder; else the wrapped network
    time_emb_dim  M, calendar marks of a step; read by the built-in predictor only
    individual    options of a wrapped predictor, as are the others below it
    """

    d_model: int
    n_heads: int = 4
    time_emb_dim: int = 4
    n_experts: int = 1
    predictor: str = "Default"
    auel_global_flag: bool = True  # adaptive level and scale, experts
    auel_distribution_flag: bool = True  # adaptive level and scale
    moe_flag: bool = True  # experts
    mkls_global_flag: bool = True
    pre_mkls_flag: bool = True
    post_mkls_flag: bool = True
    predictor_mkls_flag: bool = True
    individual: bool = False
    affine: bool = False
    subtract_last: bool = False
    decomposition: bool = False
    kernel_size: int = 25
    padding_patch: str = "end"

    def __post_init__(self) -> None:
        if self.built_in:
            check_heads(self.n_heads, self.d_model)
        elif self.predictor_mkls_flag and self.d_model <= self.enc_in:
            remedy = "A wrapped predictor reads the columns and d_model - enc_in mixtures of them."
            raise ConfigError("d_model", self.d_model, f"more than enc_in = {self.enc_in}", remedy)

    @property
    def built_in(self) -> bool:
        """Whether ARM's own encoder and decoder make the forecast."""
        return self.predictor in BUILT_IN

    @property
    def marks(self) -> int:
        """Calendar marks of a step that are read: a wrapped predictor reads none."""
        return self.time_emb_dim if self.built_in else 0

    @property
    def steps(self) -> int:
        """History and horizon together."""
        return self.seq_len + self.pred_len

    @property
    def levels(self) -> bool:
        """Whether every window is brought to its adaptive level and scale."""
        return self.auel_global_flag and self.auel_distribution_flag

    @property
    def experts(self) -> bool:
        """Whether experts make the first guess and the last correction."""
        return self.auel_global_flag and self.moe_flag

    @property
    def mixtures(self) -> int:
        """Mixtures of columns a wrapped predictor reads beside the columns."""
        return self.d_model - self.enc_in if self.predictor_mkls_flag else 0


def parse_config(official: Mapping[str, Any]) -> ArmConfig:
    """Official hyper-parameters -> configuration; unknown names are ignored. Raises ConfigError naming the field."""
    names = (*BUILT_IN, *PREDICTORS)
    options = ("individual", "affine", "subtract_last", "decomposition")
    sizes: dict[str, Any] = {
        name: positive_int(official, name) for name in ("seq_len", "pred_len", "enc_in", "d_model")
    }
    counts: dict[str, Any] = {
        name: positive_int(official, name, default=getattr(ArmConfig, name))
        for name in ("n_heads", "n_experts", "kernel_size")
    }
    return ArmConfig(
        **sizes,
        **counts,
        **{name: switch(official, name, default=getattr(ArmConfig, name)) for name in (*_SWITCHES, *options)},
        time_emb_dim=_marks(official),
        predictor=choice(
            official, "predictor", names, default="Default", remedy="ARM is served around these predictors."
        ),
        padding_patch=choice(
            official, "padding_patch", ("end", "None", "none"), default="end", remedy='The official script says "end".'
        ),
    )


def _marks(official: Mapping[str, Any]) -> int:
    """0 is allowed here: no marks."""
    value = official.get("time_emb_dim")
    return 0 if value is not None and str(value) == "0" else positive_int(official, "time_emb_dim", default=4)
