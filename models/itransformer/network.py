"""iTransformer: one token per variate, attention across variates (Liu et al., ICLR 2024, section 3).

In   x_enc       float32 [B, L, N]          any N >= 1; L == config.seq_len
     x_mark_enc  float32 [B, L, M] or None  calendar marks in [-0.5, 0.5], one more token each; M = 0 equals None
Out  forecast    float32 [B, H, N]          in the units of x_enc
With use_norm every series is brought to mean 0 and variance 1 over its window and taken back on the way out, so the
forecast follows the units of the input. No weight knows how many variates there are, nor their order.
Dropout is absent: this file is evaluation only.

Letters: D = d_model, T = N + M tokens, h heads of width d.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.errors import InputError
from models.forecasting.window import check_window
from models.itransformer.config import ITransformerConfig

VARIANCE_FLOOR = 1e-5  # added to the variance, inside the square root


class Attention(nn.Module):
    """Full multi-head attention over tokens, no mask: softmax(q k^T / sqrt(d)) v."""

    def __init__(self, config: ITransformerConfig) -> None:
        super().__init__()
        self.n_heads, self.head_dim = config.n_heads, config.head_dim
        inner = self.n_heads * self.head_dim
        self.query = nn.Linear(config.d_model, inner)
        self.key = nn.Linear(config.d_model, inner)
        self.value = nn.Linear(config.d_model, inner)
        self.out = nn.Linear(inner, config.d_model)
        self.softmax = nn.Softmax(dim=-1)  # a module, so that the attention weights can be watched

    def forward(self, x: Tensor) -> Tensor:  # [B, T, D] -> [B, T, D]
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))  # [B, h, T, d]
        weights = self.softmax(q @ k.transpose(-1, -2) / math.sqrt(self.head_dim))  # [B, h, T, T]
        mixed = (weights @ v).transpose(1, 2)  # [B, T, h, d]
        joined: Tensor = self.out(mixed.flatten(2))
        return joined

    def heads(self, x: Tensor) -> Tensor:  # [B, T, h*d] -> [B, h, T, d]
        return x.reshape(x.shape[0], x.shape[1], self.n_heads, self.head_dim).transpose(1, 2)


class EncoderLayer(nn.Module):
    """Attention between variates, then a feed-forward map inside each; LayerNorm after every residual sum."""

    def __init__(self, config: ITransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.norm1 = nn.LayerNorm(config.d_model)
        self.expand = nn.Linear(config.d_model, config.d_ff)  # official: a convolution of width 1
        self.contract = nn.Linear(config.d_ff, config.d_model)
        self.norm2 = nn.LayerNorm(config.d_model)
        self.activation = nn.ReLU() if config.activation == "relu" else nn.GELU()

    def forward(self, x: Tensor) -> Tensor:  # [B, T, D] -> [B, T, D]
        x = self.norm1(x + self.attention(x))
        y: Tensor = self.norm2(x + self.contract(self.activation(self.expand(x))))
        return y


class ITransformer(nn.Module):
    """Embed each variate's whole window, let the tokens attend to each other, project each to the horizon."""

    def __init__(self, config: ITransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Linear(config.seq_len, config.d_model)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.e_layers))
        self.norm = nn.LayerNorm(config.d_model)
        self.head = nn.Linear(config.d_model, config.pred_len)

    def forward(self, x_enc: Tensor, x_mark_enc: Tensor | None = None) -> Tensor:
        """[B, L, N] and [B, L, M] -> [B, H, N]; raises InputError for a window of another length or dtype."""
        check_window(x_enc, self.config.seq_len)
        if not self.config.use_norm:
            return self.predict(x_enc, x_mark_enc)
        mean = x_enc.mean(dim=1, keepdim=True)  # [B, 1, N]
        centred = x_enc - mean
        scale = torch.sqrt(centred.square().mean(dim=1, keepdim=True) + VARIANCE_FLOOR)  # population variance
        return self.predict(centred / scale, x_mark_enc) * scale + mean

    def predict(self, x: Tensor, marks: Tensor | None) -> Tensor:  # [B, L, N], [B, L, M] -> [B, H, N]
        tokens = x if marks is None else torch.cat([x, self.aligned(marks)], dim=2)
        h = self.embed(tokens.transpose(1, 2))  # [B, T, D]
        for layer in self.layers:
            h = layer(h)
        forecast: Tensor = self.head(self.norm(h))  # [B, T, H]
        return forecast.transpose(1, 2)[:, :, : x.shape[2]]  # the marks' tokens have no forecast

    def aligned(self, marks: Tensor) -> Tensor:
        """The marks, once they are known to cover the window step by step."""
        if marks.ndim != 3 or marks.shape[1] != self.config.seq_len:
            message = f"x_mark_enc: got shape {list(marks.shape)}, expected [batch, {self.config.seq_len} steps, marks]"
            raise InputError("tensor_shape", message, field="x_mark_enc", hint="send one row of marks per time step")
        return marks


def build(config: ITransformerConfig) -> ITransformer:
    """An untrained network in evaluation mode, ready for `load_state_dict`."""
    return ITransformer(config).eval().requires_grad_(False)
