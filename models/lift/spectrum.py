"""The Fourier transform of real sequences in real arithmetic, as two matrix products each way.

Sequences here are short (a horizon, a window), and matrices export to every runtime, which complex numbers do not.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class RealFourier(nn.Module):
    """torch.fft.rfft and irfft over the last axis, for sequences of `length`; F = length // 2 + 1 frequencies."""

    cosine: Tensor  # [length, F]
    sine: Tensor
    back_real: Tensor  # [F, length]
    back_imaginary: Tensor

    def __init__(self, length: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        frequencies = length // 2 + 1
        steps = torch.arange(length, dtype=torch.float64).unsqueeze(1)
        turns = steps * torch.arange(frequencies, dtype=torch.float64) % length  # exact before the angle is rounded
        angle = turns * (2 * math.pi / length)
        twice = torch.full((frequencies, 1), 2.0, dtype=torch.float64)  # the mirrored half of the spectrum
        twice[0] = 1.0
        if length % 2 == 0:
            twice[-1] = 1.0
        parts = {
            "cosine": angle.cos(),
            "sine": -angle.sin(),
            "back_real": twice * angle.cos().T / length,
            "back_imaginary": -twice * angle.sin().T / length,
        }
        for name, matrix in parts.items():
            self.register_buffer(name, matrix.to(dtype).contiguous(), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[..., length] -> real and imaginary part [..., F]."""
        return x @ self.cosine, x @ self.sine

    def inverse(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """[..., F] twice -> [..., length]; the imaginary part of frequencies that have none is ignored."""
        return real @ self.back_real + imaginary @ self.back_imaginary
