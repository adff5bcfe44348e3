"""LIFT: a forecaster refined by leading indicators (Zhao & Shen, ICLR 2024), around any backbone, and LightMTS.

In   x_enc       float32 [B, L, N]    with the exact estimator [B, 2L, N]: the window and as many steps before it
     x_mark_enc  float32 [B, same, M] calendar marks for a backbone that is to read them (config.backbone_marks)
Out  forecast    float32 [B, H, N]    in the units of x_enc
The backbone sees the window only. Column order matters where there are several variate states.
LightMTS is LIFT's own light model: one linear map inside the instance normalisation.
"""

from __future__ import annotations

from torch import Tensor, nn

from models.forecasting.window import check_window
from models.lift.backbones import build_backbone
from models.lift.config import LIGHT, LiftConfig
from models.lift.estimator import ExactEstimator, Leaders, LiveEstimator, normalise
from models.lift.refiner import LeadRefiner


class Lift(nn.Module):
    """Backbone, estimator of leaders, refiner."""

    def __init__(self, config: LiftConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = build_backbone(config)
        self.refiner = LeadRefiner(config)
        if config.exact:
            self.estimator: nn.Module = ExactEstimator(config.seq_len, config.leaders)
        else:
            self.estimator = LiveEstimator(config.seq_len, config.enc_in, config.leaders)

    def forward(self, x_enc: Tensor, x_mark_enc: Tensor | None = None) -> Tensor:
        """[B, L or 2L, N] -> [B, H, N]; raises InputError for a window of another length or dtype."""
        check_window(x_enc, self.config.look_back)
        history = x_enc.transpose(1, 2)
        raw = history[..., -self.config.seq_len :]  # [B, N, L]
        window, mean, spread = normalise(raw)
        leaders: Leaders = self.estimator(history if self.config.exact else window)
        if self.config.backbone == LIGHT:
            forecast, seen = self.backbone(window), window
        else:
            forecast, seen = (self.ahead(x_enc, x_mark_enc).transpose(1, 2) - mean) / spread, raw
        refined: Tensor = self.refiner(window, forecast, leaders, seen)
        return (refined * spread + mean).transpose(1, 2)

    def ahead(self, x_enc: Tensor, marks: Tensor | None) -> Tensor:
        """The backbone's own forecast [B, H, N]."""
        window = x_enc[:, -self.config.seq_len :]
        if marks is None or not self.config.backbone_marks:
            plain: Tensor = self.backbone(window)
            return plain
        marked: Tensor = self.backbone(window, marks[:, -self.config.seq_len :])
        return marked


def build(config: LiftConfig) -> Lift:
    """An untrained network in evaluation mode, ready for `load_state_dict`."""
    return Lift(config).eval().requires_grad_(False)
