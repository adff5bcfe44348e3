"""CARD's attention block: along tokens or channels, and across the hidden width (Wang et al., ICLR 2024, section 3).

The same block runs twice a layer. "Rows" below are what it attends over: tokens of one variate, or variates at one
token ("over channels", where keys and values are first summarised into dp_rank rows).
    along rows     softmax(sqrt(d) * S q (S k)^T) v        S: exponential smoothing over rows
    across width   softmax(sqrt(R) * q^T k) v^T            R rows; a d x d attention
Both scores are MULTIPLIED by a square root where the paper's formula divides: the official code does so, and the
official weights are trained for it. Either result goes through a norm and a feed-forward map of its own; their sum
joins the residual. Norms are BatchNorms with stored statistics: one affine map a channel in evaluation.

Letters: B batch, G the axis that is not attended over, R rows attended over, h heads of width d, D = h * d.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.card.config import CardConfig
from models.forecasting.batch_norm import ChannelNorm


def smoothing_matrix(config: CardConfig) -> Tensor:
    """S, float32 [max_variates, max_variates]: row i weighs rows j <= i of a sequence by an exponential average.

    Row 0 is (1, 0, ...); row i is row i-1 times (1 - alpha), with alpha on the diagonal. With alpha 0.5:
    (1, 0, 0), (.5, .5, 0), (.25, .25, .5). Rows from the token count on are zero, whatever attends there.
    """
    size = config.max_variates
    matrix = torch.zeros(size, size)
    matrix[0, 0] = 1.0
    for i in range(1, config.tokens):
        matrix[i] = matrix[i - 1] * (1 - config.alpha)
        matrix[i, i] = config.alpha
    return matrix


class FeedForward(nn.Sequential):
    """Linear, exact GELU, Linear: D -> d_ff -> D."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class Attention(nn.Module):
    """One attention block, over tokens or (`over_channels`) over variates: [B, G, R, D] -> [B, G, R, D]."""

    smoothing: Tensor

    def __init__(self, config: CardConfig, *, over_channels: bool) -> None:
        super().__init__()
        width = config.d_model
        self.n_heads, self.head_dim, self.merge_size = config.n_heads, config.head_dim, config.merge_size
        self.over_channels = over_channels
        self.qkv = nn.Linear(width, 3 * width)
        if over_channels:
            self.summarise_key = nn.Linear(self.head_dim, config.dp_rank)
            self.summarise_value = nn.Linear(self.head_dim, config.dp_rank)
        self.norm_rows, self.norm_width = ChannelNorm(width), ChannelNorm(width)
        self.ff_rows, self.ff_width = FeedForward(width, config.d_ff), FeedForward(width, config.d_ff)
        self.norm_out = ChannelNorm(width)
        self.register_buffer("smoothing", smoothing_matrix(config), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(x).reshape(*x.shape[:3], 3, self.n_heads, self.head_dim)
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5)  # [B, G, h, R, d] each
        rows = self.norm_rows(self.merge_heads(self.along_rows(q, k, v)))
        width = self.norm_width(self.merge_heads(self.across_width(q, k, v)))
        y: Tensor = self.norm_out(x + (self.ff_rows(rows) + self.ff_width(width)))
        return y

    def along_rows(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # [B, G, h, R, d] -> [B, G, h, R, d]
        if self.over_channels:
            k, v = summary(k, self.summarise_key(k)), summary(v, self.summarise_value(v))  # [B, G, h, dp_rank, d]
        scores = self.smooth(q) @ self.smooth(k).transpose(-1, -2) * math.sqrt(self.head_dim)
        return scores.softmax(dim=-1) @ v

    def across_width(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # [B, G, h, R, d] -> [B, G, h, R, d]
        scores = q.transpose(-1, -2) @ k * math.sqrt(q.shape[-2])  # [B, G, h, d, d]
        return v @ scores.softmax(dim=-1).transpose(-1, -2)

    def smooth(self, rows: Tensor) -> Tensor:  # [..., R, d] -> [..., R, d]
        size = rows.shape[-2]
        return self.smoothing[:size, :size] @ rows

    def merge_heads(self, x: Tensor) -> Tensor:
        """[B, G, h, R, d] -> [B, G, R, D], mixing merge_size neighbouring rows of a head into one row of the result.

        Reads heads and rows as one list of h * R vectors, head after head, and deals it out as (group, row, place) with
        h / merge_size groups and merge_size places. With 2 heads, 3 rows, merge_size 2 the list a0 a1 a2 b0 b1 b2
        becomes the rows (a0 a1), (a2 b0), (b1 b2); with merge_size 1 it is the usual joining (a0 b0), (a1 b1), (a2 b2).
        """
        groups = self.n_heads // self.merge_size
        dealt = x.reshape(
            *x.shape[:2], groups, x.shape[3], self.merge_size, self.head_dim
        )  # [B, G, group, R, place, d]
        return dealt.permute(0, 1, 3, 4, 2, 5).flatten(3)


def summary(rows: Tensor, scores: Tensor) -> Tensor:
    """Rows weighed by a softmax over dp_rank slots: [..., R, d], [..., R, dp_rank] -> [..., dp_rank, d]."""
    return scores.softmax(dim=-1).transpose(-1, -2) @ rows
