"""LIFT's hyper-parameters under the official names, those of its backbone beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from models.forecasting.architecture import ConfigError
from models.forecasting.hyperparameters import choice, positive_int, switch
from models.forecasting.sizes import ForecasterSizes

LIGHT = "LightMTS"  # LIFT's own light model; every other `model` is a backbone LIFT is put around
ESTIMATORS = ("exact", "live")


@dataclass(frozen=True, kw_only=True)
class LiftConfig(ForecasterSizes):
    """Sizes and options of one LIFT.

    backbone   official `model`: LightMTS, DLinear, PatchTST, iTransformer or CARD
    seq_len    the backbone's look-back
    estimator  exact: correlates with earlier windows and needs 2 * seq_len steps of history, as the official ETT
               scripts do; live: circular correlation inside the window
    inner      the backbone's hyper-parameters under their official names
    backbone_marks  whether the backbone is given the window's calendar marks. The official program never does; but it
               can be handed a forecast made elsewhere, and a backbone that reads the calendar makes it so
    """

    backbone: str
    leader_num: int = 4
    state_num: int = 8  # variate states; 1: one map for all variates
    estimator: str = "exact"
    backbone_marks: bool = False
    inner: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.seq_len < 3:
            raise ConfigError("seq_len", self.seq_len, "3 or more", "A lead needs a step on either side.")

    @property
    def exact(self) -> bool:
        """Whether the estimator needs as many steps before the window."""
        return self.estimator == "exact"

    @property
    def look_back(self) -> int:
        """Rows of history a request must bring."""
        return 2 * self.seq_len if self.exact else self.seq_len

    @property
    def leaders(self) -> int:
        """K: no more leaders than variates."""
        return min(self.leader_num, self.enc_in)

    @property
    def frequencies(self) -> int:
        """F of the horizon's spectrum."""
        return self.pred_len // 2 + 1

    @property
    def filters(self) -> int:
        """Filter values of one variate: for each leader, each leader's gap, and the forecast itself."""
        return (2 * self.leaders + 1) * self.frequencies

    def official(self) -> dict[str, Any]:
        """Every hyper-parameter under its official name."""
        own = {name: getattr(self, name) for name in ("seq_len", "pred_len", "enc_in", "leader_num", "state_num")}
        options = {"estimator": self.estimator, "backbone_marks": int(self.backbone_marks)}
        return {**self.inner, **own, "model": self.backbone, **options}


def parse_config(official: Mapping[str, Any]) -> LiftConfig:
    """Official hyper-parameters -> configuration; unknown names are ignored. Raises ConfigError naming the field."""
    from models.lift.backbones import BACKBONES

    names = (LIGHT, *BACKBONES)
    if official.get("model") is None:
        raise ConfigError("model", None, " or ".join(names), "Name the backbone the checkpoint was trained around.")
    backbone = choice(official, "model", names, default=LIGHT, remedy="LIFT is served around these backbones.")
    variates = "Give the number of columns of the training data."
    enc_in = positive_int(official, "enc_in", remedy=variates) * positive_int(official, "in_dim", default=1)
    sizes = {"seq_len": positive_int(official, "seq_len"), "pred_len": positive_int(official, "pred_len")}
    marks = switch(official, "backbone_marks", default=False)
    if marks and (backbone == LIGHT or not BACKBONES[backbone].takes_marks):
        raise ConfigError("backbone_marks", 1, f"0: {backbone} reads no calendar", "Leave it out.")
    inner: Mapping[str, Any] = {}
    if backbone != LIGHT:
        inner = BACKBONES[backbone].parse_config({**official, "enc_in": enc_in}).official()
    return LiftConfig(
        backbone=backbone,
        **sizes,
        enc_in=enc_in,
        leader_num=positive_int(official, "leader_num", default=LiftConfig.leader_num),
        state_num=positive_int(official, "state_num", default=LiftConfig.state_num),
        estimator=choice(
            official,
            "estimator",
            ESTIMATORS,
            default=LiftConfig.estimator,
            remedy='The official ETT scripts use "exact"; "live" needs no history before the window.',
        ),
        backbone_marks=marks,
        inner=inner,
    )
