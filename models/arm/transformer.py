"""ARM's built-in predictor: an encoder of two layers and a decoder of one over history and horizon together.

Kernel smoothing: the official block evaluates convolutions of several widths and then returns two linear maps of its
input; those two maps are all that reaches a forecast, so they are all that is here.

Letters: T = L + H steps, D = d_model, M calendar marks, h heads of width d.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.arm.config import ArmConfig

LATENT = 64  # widest inner width of the kernel smoothing


class Smoothing(nn.Module):
    """Two linear maps, D -> min(D, 64) -> D."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.narrow = nn.Linear(width, min(width, LATENT))
        self.widen = nn.Linear(min(width, LATENT), width)

    def forward(self, x: Tensor) -> Tensor:
        smoothed: Tensor = self.widen(self.narrow(x))
        return smoothed


class Layer(nn.Module):
    """Full attention of queries over keys, a feed-forward map, LayerNorm after each; `added` before the last norm."""

    def __init__(self, config: ArmConfig) -> None:
        super().__init__()
        width, inner = config.d_model, config.n_heads * (config.d_model // config.n_heads)
        self.n_heads = config.n_heads
        self.query = nn.Linear(width, inner)
        self.key = nn.Linear(width, inner)
        self.value = nn.Linear(width, inner)
        self.out = nn.Linear(inner, width)
        self.norm_attention = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.norm_out = nn.LayerNorm(width)
        self.fuse = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor, memory: Tensor, added: Tensor | None) -> Tensor:
        x = self.norm_attention(x + self.attend(x, memory))
        x = x + self.contract(nn.functional.gelu(self.expand(x)))
        x = x * self.fuse
        y: Tensor = self.norm_out(x if added is None else x + added)
        return y

    def attend(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = self.heads(self.query(x)), self.heads(self.key(memory)), self.heads(self.value(memory))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)
        mixed: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return mixed

    def heads(self, x: Tensor) -> Tensor:  # [B, T, h*d] -> [B, h, T, d]
        return x.reshape(x.shape[0], x.shape[1], self.n_heads, -1).transpose(1, 2)


class BuiltIn(nn.Module):
    """[B, T, N] and marks [B, T, M] -> [B, H, N]."""

    def __init__(self, config: ArmConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Linear(config.enc_in + config.time_emb_dim, config.d_model)
        self.history_part = nn.Parameter(torch.zeros(1, 1, config.d_model))
        self.horizon_part = nn.Parameter(torch.zeros(1, 1, config.d_model))
        self.position = nn.Parameter(torch.zeros(1, config.steps, config.d_model))
        self.smooth_input = Smoothing(config.d_model)
        self.smooth_encoder = Smoothing(config.d_model)
        self.smooth_decoder = Smoothing(config.d_model)
        self.encoder1, self.encoder2, self.decoder = Layer(config), Layer(config), Layer(config)
        self.head = nn.Linear(config.d_model, config.enc_in)

    def forward(self, x: Tensor, marks: Tensor) -> Tensor:
        history, horizon = self.config.seq_len, self.config.pred_len
        parts = [self.history_part.expand(-1, history, -1), self.horizon_part.expand(-1, horizon, -1)]
        h = self.embed(torch.cat([x, marks], dim=-1)) + torch.cat(parts, dim=1) + self.position
        if self.config.mkls_global_flag and self.config.pre_mkls_flag:
            h = h + self.smooth_input(h)
        after = self.config.mkls_global_flag and self.config.post_mkls_flag
        memory = self.encoder1(h, h, None)
        memory = self.encoder2(memory, memory, self.smooth_encoder(h) if after else None)
        decoded = self.decoder(h, memory, self.smooth_decoder(h) if after else None)
        forecast: Tensor = self.head(decoded[:, history:])
        return forecast


class Wrapped(nn.Module):
    """Another predictor on columns and mixtures of them: [B, T, N] -> [B, H, N]; it sees the history only."""

    def __init__(self, config: ArmConfig, predictor: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.predictor = predictor
        if config.mixtures:
            self.mix = nn.Linear(config.enc_in, config.mixtures)
            self.smooth_input, self.smooth_output = Smoothing(config.mixtures), Smoothing(config.mixtures)
            self.head = nn.Linear(config.d_model, config.enc_in)

    def forward(self, x: Tensor, marks: Tensor) -> Tensor:
        history, mixtures = self.config.seq_len, self.config.mixtures
        if not mixtures:
            plain: Tensor = self.predictor(x[:, :history])
            return plain
        mixed = self.mix(x)
        mixed = mixed + self.smooth_input(mixed)
        output = self.predictor(torch.cat([mixed, x], dim=-1)[:, :history])  # [B, H, D]
        ahead, own = output[..., :mixtures], output[..., mixtures:]
        corrected = torch.cat([ahead + self.smooth_output(ahead), own], dim=-1)
        forecast: Tensor = self.head(corrected) + own
        return forecast
