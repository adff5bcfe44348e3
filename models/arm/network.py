"""ARM: adaptive levels, experts, and smoothing around a predictor (Lu et al., ICLR 2024, section 3).

In   x_enc       float32 [B, L, N]      L == config.seq_len exactly; columns in training order
     x_mark_enc  float32 [B, L + H, M]  calendar marks of the history AND of the horizon, in [-0.5, 0.5]; None where the
                                        configuration reads none (M = 0, or a wrapped predictor)
Out  forecast    float32 [B, H, N]      in the units of x_enc
The official caller appends H rows of zeros to the history; their normalised value is part of what experts and
encoder see, so they are appended here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.arm.config import ArmConfig
from models.arm.experts import Experts
from models.arm.normalisation import AdaptiveNorm
from models.arm.predictors import PREDICTORS
from models.arm.transformer import BuiltIn, Wrapped
from models.errors import InputError
from models.forecasting.window import check_window


class Arm(nn.Module):
    """Normalise, guess the horizon, predict, correct by the same experts, undo the normalisation."""

    def __init__(self, config: ArmConfig) -> None:
        super().__init__()
        self.config = config
        self.norm = AdaptiveNorm(config.enc_in)
        self.experts = Experts(config.steps, config.pred_len, config.n_experts)
        if config.built_in:
            self.predictor: nn.Module = BuiltIn(config)
        else:
            self.predictor = Wrapped(config, PREDICTORS[config.predictor].build(config))

    def forward(self, x_enc: Tensor, x_mark_enc: Tensor | None = None) -> Tensor:
        """[B, L, N], [B, L + H, M] -> [B, H, N]; raises InputError for another length, dtype or number of marks."""
        check_window(x_enc, self.config.seq_len)
        marks = self.marks(x_enc, x_mark_enc)
        tail = torch.zeros_like(x_enc[:, :1]).expand(-1, self.config.pred_len, -1)
        x = torch.cat([x_enc, tail], dim=1)
        if not self.config.levels:
            return self.predict(x, marks)
        level, scale = self.norm.statistics(x_enc)
        return self.norm.undo(self.predict(self.norm.apply_to(x, level, scale), marks), level, scale)

    def predict(self, x: Tensor, marks: Tensor) -> Tensor:
        """Normalised history and tail [B, L + H, N] -> normalised forecast [B, H, N]."""
        if not self.config.experts:
            plain: Tensor = self.predictor(x, marks)
            return plain
        history = x[:, : self.config.seq_len]
        guess = self.experts(x.transpose(1, 2)).transpose(1, 2)
        forecast = self.predictor(torch.cat([history, guess], dim=1), marks)
        correction = self.experts(torch.cat([history, forecast], dim=1).transpose(1, 2))
        corrected: Tensor = correction.transpose(1, 2) + forecast
        return corrected

    def marks(self, x: Tensor, sent: Tensor | None) -> Tensor:
        """The marks, once they are known to cover history and horizon."""
        wanted = self.config.marks
        if wanted == 0:
            return x.new_zeros(x.shape[0], self.config.steps, 0)
        if sent is None or sent.ndim != 3 or sent.shape[1:] != (self.config.steps, wanted):
            got = "none" if sent is None else f"shape {list(sent.shape)}"
            message = f"x_mark_enc: got {got}, expected [batch, {self.config.steps} steps, {wanted}]"
            hint = "send one row of marks per time step, history and horizon"
            raise InputError("tensor_shape", message, field="x_mark_enc", hint=hint)
        return sent


def build(config: ArmConfig) -> Arm:
    """An untrained network in evaluation mode, ready for `load_state_dict`."""
    return Arm(config).eval().requires_grad_(False)
