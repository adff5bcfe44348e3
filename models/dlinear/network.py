"""DLinear: trend and remainder of a window, one linear map each (Zeng et al., AAAI 2023, section 4).

In   x_enc     float32 [B, L, N]
Out  forecast  float32 [B, H, N]   in the units of x_enc
"""

from __future__ import annotations

from torch import Tensor, nn

from models.dlinear.config import DLinearConfig
from models.forecasting.decomposition import MovingAverage, apply_each
from models.forecasting.window import check_window

WINDOW = 25  # steps of the moving average; fixed in the official program


class PerVariate(nn.Module):
    """[B, N, L] -> [B, N, H]: one linear map for all variates, or one for each."""

    def __init__(self, config: DLinearConfig) -> None:
        super().__init__()
        count = config.enc_in if config.individual else 1
        self.maps = nn.ModuleList(nn.Linear(config.seq_len, config.pred_len) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        if len(self.maps) == 1:
            shared: Tensor = self.maps[0](x)
            return shared
        return apply_each(self.maps, x)


class DLinear(nn.Module):
    """Sum of the linear forecasts of trend and remainder."""

    def __init__(self, config: DLinearConfig) -> None:
        super().__init__()
        self.config = config
        self.average = MovingAverage(WINDOW)
        self.remainder = PerVariate(config)
        self.trend = PerVariate(config)

    def forward(self, x_enc: Tensor) -> Tensor:
        """[B, L, N] -> [B, H, N]; raises InputError for a window of another length or dtype."""
        check_window(x_enc, self.config.seq_len)
        trend = self.average(x_enc)
        forecast: Tensor = self.remainder((x_enc - trend).transpose(1, 2)) + self.trend(trend.transpose(1, 2))
        return forecast.transpose(1, 2)


def build(config: DLinearConfig) -> DLinear:
    """An untrained network in evaluation mode, ready for `load_state_dict`."""
    return DLinear(config).eval().requires_grad_(False)
