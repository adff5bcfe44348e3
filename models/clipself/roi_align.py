"""RoIAlign as mean pooling of bilinear samples, written as two small matrices a box: down @ map @ across^T.

In   features  float32 [B, C, h, w]
     boxes     float32 [R, 4]   x0, y0, x1, y1 in pixels of which `scale` makes feature cells
     image     int64 [R]        which map a box lies on
Out  float32 [R, C, size, size]
Equal to onnxruntime's RoiAlign (opset 16; half_pixel where `aligned`): samples beyond one cell outside the map count
as zero, nearer ones take the border's value; a reversed or empty box is zero where sampling is adaptive.
"""

from __future__ import annotations

import torch
from torch import Tensor


def roi_align(
    features: Tensor,
    boxes: Tensor,
    image: Tensor,
    size: int,
    *,
    scale: float = 1.0,
    samples: int = 0,
    aligned: bool = True,
) -> Tensor:
    """samples: per bin and axis; 0: adaptive, ceil(box / size)."""
    shift = 0.5 if aligned else 0.0
    x0, y0, x1, y1 = (boxes * scale - shift).unbind(-1)
    width, height = x1 - x0, y1 - y0
    if not aligned:
        width, height = width.clamp(min=1.0), height.clamp(min=1.0)
    down = _axis(y0, height, features.shape[2], size, samples)
    across = _axis(x0, width, features.shape[3], size, samples)
    return torch.einsum("rih,rchw,rjw->rcij", down, features[image], across)


def _axis(start: Tensor, length: Tensor, cells: int, size: int, samples: int) -> Tensor:
    """Weights [R, size, cells]: what each cell of one axis adds to each bin."""
    count = torch.full_like(length, samples) if samples > 0 else torch.ceil(length / size)
    most = max(int(count.max()) if len(count) else 0, 1)
    step = torch.arange(most, dtype=start.dtype)
    bins = torch.arange(size, dtype=start.dtype).unsqueeze(1)
    bin_length = (length / size).reshape(-1, 1, 1)
    per_bin = count.clamp(min=1).reshape(-1, 1, 1)
    at = start.reshape(-1, 1, 1) + bins * bin_length + (step + 0.5) * bin_length / per_bin  # [R, size, samples]
    counted = (step < count.reshape(-1, 1, 1)) & (at >= -1.0) & (at <= cells)
    near = at.clamp(min=0.0)
    low = near.floor().clamp(max=cells - 1)
    high = (low + 1).clamp(max=cells - 1)
    part = torch.where(low >= cells - 1, torch.zeros_like(near), near - low)
    share = counted / per_bin
    weights = start.new_zeros(len(start), size, cells)
    weights.scatter_add_(2, low.long(), (1 - part) * share)
    return weights.scatter_add_(2, high.long(), part * share)
