"""Leading indicators: which variates run ahead of which, by how many steps, and how closely (Zhao & Shen, section 4.1).

For a target and a candidate leader, every lead s gives a correlation; only local maxima of its absolute value over s
count, the largest is the pair's correlation, and the K candidates with the largest are the target's leaders.

live   a window alone [B, N, L]: circular cross-correlation. A variate against itself is symmetric (s and L - s tie);
       the smaller lead is taken, where the official program lets rounding decide.
exact  the window and as many steps before it [B, N, 2L]: correlation with the truly earlier windows, each normalised
       by itself. The official ETT scripts use this one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.lift.spectrum import RealFourier

FLOOR = 1e-8  # added to the variance, inside the square root
STRETCH = 2.0**26  # the ONNX optimizer takes 1e-8 for 0 and drops the addition; a power of 4 changes no bit of the root


class Leaders(NamedTuple):
    """ids int64 [B, N, K], shift int64 [B, N, K] (steps ahead, 1 to L - 1), correlation float32 [B, N, K] signed."""

    ids: Tensor
    shift: Tensor
    correlation: Tensor


def normalise(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Over the last axis: (x - mean) / sqrt(variance + 1e-8), the mean, the divisor."""
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    spread = deviation(centred.square().mean(dim=-1, keepdim=True))
    return centred / spread, mean, spread


def deviation(variance: Tensor) -> Tensor:
    """sqrt(variance + 1e-8)."""
    stretched: Tensor = torch.sqrt(variance * STRETCH + FLOOR * STRETCH)
    return stretched / math.sqrt(STRETCH)


class LiveEstimator(nn.Module):
    """Leaders from the normalised window [B, N, L]. Float64 inside, so that rounding does not choose leaders."""

    def __init__(self, look_back: int, variates: int, leaders: int) -> None:
        super().__init__()
        self.leaders, self.look_back = leaders, look_back
        self.fourier = RealFourier(look_back, torch.float64)
        self.register_buffer("itself", torch.eye(variates, dtype=torch.float64).unsqueeze(-1), persistent=False)

    def forward(self, window: Tensor) -> Leaders:
        real, imaginary = self.fourier(window.double())
        a, b = real.unsqueeze(2), imaginary.unsqueeze(2)  # target
        c, d = real.unsqueeze(1), -imaginary.unsqueeze(1)  # candidate, conjugate
        correlation = self.fourier.inverse(a * c - b * d, a * d + b * c) / self.look_back  # [B, N, N, L]
        mirrored = torch.cat([correlation[..., :1], correlation[..., 1:].flip(-1)], dim=-1)
        correlation = torch.where(self.itself > 0, (correlation + mirrored) / 2, correlation)
        return choose(correlation, self.leaders)

    itself: Tensor


class ExactEstimator(nn.Module):
    """Leaders from raw history [B, N, 2L], whose last L steps are the window. Float64 inside, as above.

    All leads at once: the window, continued by L zeros, does not run into itself when it goes round 2L steps.
    """

    band: Tensor  # [2L, L + 1], column s averages the window s steps before the last one
    back_real: Tensor  # [F, L + 1], from a spectrum to the products with those windows
    back_imaginary: Tensor

    def __init__(self, look_back: int, leaders: int) -> None:
        super().__init__()
        self.leaders, self.look_back = leaders, look_back
        self.fourier = RealFourier(2 * look_back, torch.float64)
        first = torch.arange(look_back, -1, -1)  # where the window s steps before begins
        age = torch.arange(2 * look_back).unsqueeze(1) - first
        inside = (age >= 0) & (age < look_back)
        self.register_buffer("band", inside.double() / look_back, persistent=False)
        self.register_buffer("back_real", self.fourier.back_real[:, first] / look_back, persistent=False)
        self.register_buffer("back_imaginary", self.fourier.back_imaginary[:, first] / look_back, persistent=False)

    def forward(self, history: Tensor) -> Leaders:
        history = history.double()
        target, mean, _ = normalise(history[..., -self.look_back :])  # [B, N, L]
        centred = history - mean
        variance = centred.square() @ self.band - (centred @ self.band).square()  # [B, N, L + 1] of every window
        products = self.products(target, centred)
        # The target's mean is 0, so a window's own mean drops out of the product; its deviation is left to divide by.
        return choose(products / deviation(variance.clamp(min=0)).unsqueeze(1), self.leaders)

    def products(self, target: Tensor, history: Tensor) -> Tensor:
        """Mean products of every target with every candidate's windows: [B, N, N, L + 1], last axis the lead."""
        real, imaginary = self.fourier(history)
        a, b = real.unsqueeze(1), imaginary.unsqueeze(1)  # candidate
        c = (target @ self.fourier.cosine[: self.look_back]).unsqueeze(2)  # target, continued by zeros
        d = (target @ self.fourier.sine[: self.look_back]).unsqueeze(2)
        found: Tensor = (a * c + b * d) @ self.back_real + (b * c - a * d) @ self.back_imaginary
        return found


def choose(correlation: Tensor, leaders: int) -> Leaders:
    """The K strongest candidates by their best local maximum over leads 1 .. S - 2; correlation [B, N, N, S]."""
    size = correlation.abs()
    inner = size[..., 1:-1]
    peak = (inner >= size[..., :-2]) & (inner >= size[..., 2:])
    kept = correlation[..., 1:-1] * peak
    best, lead = kept.abs().max(dim=-1)  # [B, N, N]
    ids = best.topk(leaders, dim=-1).indices
    signed = kept.gather(-1, lead.unsqueeze(-1)).squeeze(-1)
    return Leaders(ids, lead.gather(-1, ids) + 1, signed.gather(-1, ids).to(torch.float32))
