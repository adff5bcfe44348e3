"""CARD: channel aligned robust blend transformer (Wang et al., ICLR 2024, section 3).

In   x_enc     float32 [B, L, N]   L == config.seq_len exactly; 1 <= N <= config.max_variates; column order matters
Out  forecast  float32 [B, H, N]   in the units of x_enc
Each variate is normalised over its window (unbiased deviation + 1e-4), cut into overlapping patches, and led by one
more token: learned, or made from the window's mean and deviation. Every layer attends over channels, then over
tokens. Column order matters because channel attention smooths along the columns.
Calendar marks are never read. Dropout is absent: this file is evaluation only.

Letters: D = d_model, T tokens of a variate (1 + patches).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.card.attention import Attention
from models.card.config import CardConfig
from models.errors import InputError
from models.forecasting.batch_norm import ChannelNorm
from models.forecasting.window import check_window

DEVIATION_FLOOR = 1e-4  # added to the deviation, outside the square root


class Block(nn.Module):
    """One layer: channel attention, token attention on its result, both mixed into the residual, norm."""

    def __init__(self, config: CardConfig) -> None:
        super().__init__()
        self.over_channels = Attention(config, over_channels=True)
        self.over_tokens = Attention(config, over_channels=False)
        self.mix = nn.Linear(config.d_model, config.d_model)
        self.norm = ChannelNorm(config.d_model)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, T, D] -> [B, N, T, D]
        channels = self.over_channels(x.transpose(1, 2)).transpose(1, 2)
        tokens = self.over_tokens(channels)
        y: Tensor = self.norm(x + self.mix(channels + tokens))
        return y


class Card(nn.Module):
    """Normalise, cut into patches, align channels and tokens, project all tokens of a variate to the horizon."""

    def __init__(self, config: CardConfig) -> None:
        super().__init__()
        self.config = config
        self.patch = nn.Linear(config.patch_len, config.d_model)
        self.position = nn.Parameter(torch.zeros(config.patches, config.d_model))
        if config.use_statistic:
            self.statistic = nn.Linear(2, config.d_model)
        else:
            self.leading = nn.Parameter(torch.zeros(1, config.d_model))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.e_layers))
        self.head = nn.Linear(config.tokens * config.d_model, config.pred_len)

    def forward(self, x_enc: Tensor) -> Tensor:
        """[B, L, N] -> [B, H, N]; raises InputError for a window of another length, dtype or too many variates."""
        self.check(x_enc)
        x = x_enc.transpose(1, 2)  # [B, N, L]
        mean, deviation = x.mean(dim=-1, keepdim=True), x.std(dim=-1, keepdim=True)  # [B, N, 1]
        scale = deviation + DEVIATION_FLOOR
        patches = ((x - mean) / scale).unfold(-1, self.config.patch_len, self.config.stride)  # [B, N, T-1, patch_len]
        embedded = self.patch(patches) + self.position
        h = torch.cat([self.leading_token(mean, deviation), embedded], dim=2)  # [B, N, T, D]
        for block in self.blocks:
            h = block(h)
        forecast: Tensor = self.head(h.flatten(2)) * scale + mean  # [B, N, H]
        return forecast.transpose(1, 2)

    def leading_token(self, mean: Tensor, deviation: Tensor) -> Tensor:  # [B, N, 1] each -> [B, N, 1, D]
        if not self.config.use_statistic:
            return self.leading.expand(mean.shape[0], mean.shape[1], 1, self.config.d_model)
        statistic = torch.cat([mean, deviation], dim=-1)  # [B, N, 2]
        if statistic.shape[1] > 1:  # compared between variates, so a single one stays as it is
            spread = statistic.std(dim=1, keepdim=True) + DEVIATION_FLOOR
            statistic = (statistic - statistic.mean(dim=1, keepdim=True)) / spread
        token: Tensor = self.statistic(statistic)
        return token.unsqueeze(2)

    def check(self, x_enc: Tensor) -> None:
        """Refuse a window this network would silently cut (97 steps pass the official code) or cannot align."""
        check_window(x_enc, self.config.seq_len)
        limit = self.config.max_variates
        if x_enc.shape[2] > limit:
            message = f"x_enc: got {x_enc.shape[2]} variates, this network aligns at most {limit}"
            hint = f"send the {self.config.enc_in} columns it was trained with"
            raise InputError("tensor_shape", message, field="x_enc", hint=hint)


def build(config: CardConfig) -> Card:
    """An untrained network in evaluation mode, ready for `load_state_dict`."""
    return Card(config).eval().requires_grad_(False)
