"""PatchTST: patches of each variate as tokens (Nie et al., ICLR 2023, section 3), the supervised network.

In   x_enc     float32 [B, L, N]
Out  forecast  float32 [B, H, N]   in the units of x_enc
Variates never meet: each goes through the same encoder. Attention scores carry over from layer to layer (residual
attention). Dropout is absent: this file is evaluation only.

Letters: D = d_model, P patches, h heads of width d.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.forecasting.batch_norm import ChannelNorm
from models.forecasting.decomposition import MovingAverage, apply_each
from models.forecasting.window import check_window
from models.patchtst.config import PatchTSTConfig

FLOOR = 1e-5  # added to the variance, inside the square root


class Attention(nn.Module):
    """Multi-head attention whose scores are added to the next layer's."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        self.n_heads, inner = config.n_heads, config.n_heads * config.head_dim
        self.query = nn.Linear(config.d_model, inner)
        self.key = nn.Linear(config.d_model, inner)
        self.value = nn.Linear(config.d_model, inner)
        self.out = nn.Linear(inner, config.d_model)
        self.scale = nn.Parameter(torch.tensor(config.head_dim**-0.5))

    def forward(self, x: Tensor, scores: Tensor | None) -> tuple[Tensor, Tensor]:
        """x [M, P, D], the previous layer's scores [M, h, P, P] -> output [M, P, D], scores."""
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))  # [M, h, P, d]
        own = q @ k.transpose(-1, -2) * self.scale
        scores = own if scores is None else own + scores
        mixed = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2)
        return self.out(mixed), scores

    def heads(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.n_heads, -1).transpose(1, 2)


class EncoderLayer(nn.Module):
    """Attention and feed-forward map, a BatchNorm over channels after each residual sum."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.norm_attention = ChannelNorm(config.d_model)
        self.expand = nn.Linear(config.d_model, config.d_ff)
        self.contract = nn.Linear(config.d_ff, config.d_model)
        self.norm_feed_forward = ChannelNorm(config.d_model)

    def forward(self, x: Tensor, scores: Tensor | None) -> tuple[Tensor, Tensor]:
        attended, scores = self.attention(x, scores)
        x = self.norm_attention(x + attended)
        fed = self.contract(nn.functional.gelu(self.expand(x)))
        return self.norm_feed_forward(x + fed), scores


class WindowNorm(nn.Module):
    """Reversible instance normalisation of a window [B, N, L]."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        self.affine, self.subtract_last = config.affine, config.subtract_last
        if config.affine:
            self.weight = nn.Parameter(torch.ones(config.enc_in))
            self.bias = nn.Parameter(torch.zeros(config.enc_in))

    def statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        centre = x[..., -1:] if self.subtract_last else x.mean(dim=-1, keepdim=True)
        return centre, torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + FLOOR)

    def apply_to(self, x: Tensor, statistics: tuple[Tensor, Tensor]) -> Tensor:
        centre, spread = statistics
        x = (x - centre) / spread
        return x * self.weight.unsqueeze(-1) + self.bias.unsqueeze(-1) if self.affine else x

    def undo(self, y: Tensor, statistics: tuple[Tensor, Tensor]) -> Tensor:
        centre, spread = statistics
        if self.affine:
            y = (y - self.bias.unsqueeze(-1)) / (self.weight.unsqueeze(-1) + FLOOR * FLOOR)
        return y * spread + centre


class Backbone(nn.Module):
    """Normalise, cut into patches, encode, project all patches of a variate to the horizon: [B, N, L] -> [B, N, H]."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        self.config = config
        self.norm = WindowNorm(config) if config.revin else None
        self.embed = nn.Linear(config.patch_len, config.d_model)
        self.position = nn.Parameter(torch.zeros(config.patches, config.d_model))
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.e_layers))
        width = config.patches * config.d_model
        heads = config.enc_in if config.individual else 1
        self.heads = nn.ModuleList(nn.Linear(width, config.pred_len) for _ in range(heads))

    def forward(self, x: Tensor) -> Tensor:
        if self.norm is None:
            return self.project(self.encode(x))
        statistics = self.norm.statistics(x)
        return self.norm.undo(self.project(self.encode(self.norm.apply_to(x, statistics))), statistics)

    def encode(self, x: Tensor) -> Tensor:  # [B, N, L] -> [B, N, D * P]
        if self.config.padding_patch == "end":
            x = torch.cat([x, x[..., -1:].expand(-1, -1, self.config.stride)], dim=-1)
        patches = x.unfold(-1, self.config.patch_len, self.config.stride)  # [B, N, P, patch_len]
        h = (self.embed(patches) + self.position).flatten(0, 1)  # [B*N, P, D]
        scores: Tensor | None = None
        for layer in self.layers:
            h, scores = layer(h, scores)
        encoded: Tensor = h.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)
        return encoded

    def project(self, h: Tensor) -> Tensor:
        if self.config.individual:
            return apply_each(self.heads, h)
        forecast: Tensor = self.heads[0](h)
        return forecast


class PatchTST(nn.Module):
    """One backbone for the window, or one for its trend and one for the remainder."""

    def __init__(self, config: PatchTSTConfig) -> None:
        super().__init__()
        self.config = config
        parts = 2 if config.decomposition else 1
        self.parts = nn.ModuleList(Backbone(config) for _ in range(parts))
        self.average = MovingAverage(config.kernel_size)

    def forward(self, x_enc: Tensor) -> Tensor:
        """[B, L, N] -> [B, H, N]; raises InputError for a window of another length or dtype."""
        check_window(x_enc, self.config.seq_len)
        if len(self.parts) == 1:
            forecast: Tensor = self.parts[0](x_enc.transpose(1, 2))
        else:
            trend = self.average(x_enc)
            remainder = x_enc - trend
            forecast = self.parts[0](remainder.transpose(1, 2)) + self.parts[1](trend.transpose(1, 2))
        return forecast.transpose(1, 2)


def build(config: PatchTSTConfig) -> PatchTST:
    """An untrained network in evaluation mode, ready for `load_state_dict`."""
    return PatchTST(config).eval().requires_grad_(False)
