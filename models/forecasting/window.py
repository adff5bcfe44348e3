"""The check in front of every forward pass: a network must refuse a window it was not made for.

Shapes are plain numbers while torch.export traces, so the checks cost nothing in an exported graph and leave the
batch axis free; the served path repeats them on the wire, where the caller can be told the field.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.errors import InputError


def check_window(x_enc: Tensor, look_back: int) -> None:
    """Refuse anything but float32 [B, look_back, N]; raises InputError with code tensor_dtype or tensor_shape."""
    if x_enc.dtype != torch.float32:
        hint = "convert the window to float32"
        raise InputError("tensor_dtype", f"x_enc: got {x_enc.dtype}, expected float32", field="x_enc", hint=hint)
    if x_enc.ndim != 3:
        message = f"x_enc: got {x_enc.ndim} axes, expected 3: [batch, {look_back} steps, variates]"
        raise InputError("tensor_shape", message, field="x_enc", hint="add the missing axis")
    if x_enc.shape[1] != look_back:
        message = f"x_enc: got {x_enc.shape[1]} time steps, this network needs exactly {look_back}"
        raise InputError("tensor_shape", message, field="x_enc", hint=f"send the last {look_back} steps")
