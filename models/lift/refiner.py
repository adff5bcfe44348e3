"""LIFT's refinement: mix a forecast with its leaders in the frequency domain (Zhao & Shen, ICLR 2024, section 4.2).

Letters: B batch, N variates, L look-back, H horizon, K leaders, F = H // 2 + 1 frequencies, S variate states.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.lift.config import LiftConfig
from models.lift.estimator import Leaders
from models.lift.spectrum import RealFourier


class ShiftedLeaders(nn.Module):
    """Each leader moved forward by its lead, its sign turned to the target's: [B, N, K, H], normalised scale."""

    ahead: Tensor

    def __init__(self, config: LiftConfig) -> None:
        super().__init__()
        first = config.seq_len
        self.register_buffer("ahead", torch.arange(first, first + config.pred_len), persistent=False)

    def forward(self, window: Tensor, forecast: Tensor, leaders: Leaders) -> Tensor:
        """window [B, N, L] and forecast [B, N, H], both normalised."""
        path = torch.cat([window, forecast], dim=-1)  # [B, N, L + H]
        batch, variates, count = leaders.ids.shape
        flat = leaders.ids.reshape(batch, variates * count, 1)
        paths = path.gather(1, flat.expand(-1, -1, path.shape[-1]))
        steps = self.ahead - leaders.shift.reshape(batch, variates * count, 1)
        moved = paths.gather(-1, steps).reshape(batch, variates, count, -1)
        return moved * torch.sign(leaders.correlation).unsqueeze(-1)


class FilterFactory(nn.Module):
    """Filters of every frequency from how closely the leaders correlate: [B, N, K] -> [B, N, (2K + 1) * F].

    With S > 1 variate states the map is a mixture of S maps, weighted by what the window and the variate look like.
    """

    def __init__(self, config: LiftConfig) -> None:
        super().__init__()
        self.inputs, self.outputs = config.leaders, config.filters
        states = config.state_num
        if states == 1:
            self.mix = nn.Linear(self.inputs, self.outputs)
            return
        self.classify = nn.Linear(config.seq_len, states, bias=False)
        self.of_variate = nn.Parameter(torch.zeros(config.enc_in, states))
        self.bias = nn.Parameter(torch.zeros(states))
        self.mix_weight = nn.Parameter(torch.zeros(states, self.inputs * self.outputs))
        self.mix_bias = nn.Parameter(torch.zeros(states, self.outputs))
        self.softmax = nn.Softmax(dim=-1)  # a module, so that the states can be watched
        self.states = states

    def forward(self, window: Tensor, closeness: Tensor) -> Tensor:
        """window [B, N, L] as the official program gives it: raw over a backbone, normalised in LightMTS."""
        if hasattr(self, "mix"):
            filters: Tensor = self.mix(closeness)
            return filters
        state = self.softmax((self.bias + self.of_variate + self.classify(window)).unsqueeze(-2))  # [B, N, 1, S]
        weight = (state @ self.mix_weight).reshape(*closeness.shape[:2], self.inputs, self.outputs)
        bias = (state @ self.mix_bias).squeeze(-2)
        mixed: Tensor = (closeness.unsqueeze(-2) @ weight).squeeze(-2) + bias
        return mixed


class ComplexLinear(nn.Module):
    """A complex affine map in real arithmetic: [..., inputs] -> [..., outputs], real and imaginary part apart."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight_real = nn.Parameter(torch.zeros(outputs, inputs))
        self.weight_imaginary = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias_real = nn.Parameter(torch.zeros(outputs))
        self.bias_imaginary = nn.Parameter(torch.zeros(outputs))

    def forward(self, real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.weight_real.T, self.weight_imaginary.T
        return real @ a - imaginary @ b + self.bias_real, real @ b + imaginary @ a + self.bias_imaginary


class LeadRefiner(nn.Module):
    """Forecast plus what its leaders add, in the normalised scale: [B, N, H] -> [B, N, H]."""

    def __init__(self, config: LiftConfig) -> None:
        super().__init__()
        self.leaders = config.leaders
        self.temperature = nn.Parameter(torch.ones(1))
        self.shifted = ShiftedLeaders(config)
        self.factory = FilterFactory(config)
        self.fourier = RealFourier(config.pred_len)
        self.mix = ComplexLinear(3 * config.frequencies, config.frequencies)

    def forward(self, window: Tensor, forecast: Tensor, leaders: Leaders, seen: Tensor) -> Tensor:
        """window, forecast  normalised [B, N, L], [B, N, H]; seen [B, N, L] is what the filter factory looks at."""
        moved = self.shifted(window, forecast, leaders)
        filters = self.filters(leaders.correlation.abs(), seen)  # [B, N, 2K + 1, F]
        k = self.leaders
        (lead_re, lead_im), (own_re, own_im) = self.fourier(moved), self.fourier(forecast)
        lead_re, lead_im = lead_re * filters[:, :, :k], lead_im * filters[:, :, :k]
        gap_re = (lead_re - own_re.unsqueeze(2)) * filters[:, :, k:-1]
        gap_im = (lead_im - own_im.unsqueeze(2)) * filters[:, :, k:-1]
        last = filters[:, :, -1]
        real = torch.cat([lead_re.sum(2), gap_re.sum(2), own_re * last], dim=-1)
        imaginary = torch.cat([lead_im.sum(2), gap_im.sum(2), own_im * last], dim=-1)
        return forecast + self.fourier.inverse(*self.mix(real, imaginary))

    def filters(self, closeness: Tensor, seen: Tensor) -> Tensor:
        """closeness [B, N, K] = |correlation|; a one stands for the variate itself."""
        weights = torch.cat([torch.ones_like(closeness[..., :1]), closeness], dim=-1) / self.temperature
        share = torch.softmax(weights, dim=-1)[..., 1:]
        made: Tensor = self.factory(seen, share)
        return made.reshape(*closeness.shape[:2], 2 * self.leaders + 1, -1)
