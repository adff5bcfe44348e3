"""What the tests of the forecasting networks share: small configurations, random weights, bundled checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

ROOT = Path(__file__).parents[2]
CHECKPOINTS = ROOT / "data" / "checkpoints"
SMALL: dict[str, dict[str, Any]] = {
    "itransformer": {
        "seq_len": 24, "pred_len": 6, "enc_in": 3, "d_model": 16, "n_heads": 4, "e_layers": 2, "d_ff": 8,
    },
    "card": {
        "seq_len": 96, "pred_len": 6, "enc_in": 3, "d_model": 16, "n_heads": 4, "e_layers": 2, "d_ff": 8,
        "patch_len": 16, "stride": 8, "dp_rank": 4, "merge_size": 2,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Bundled:
    """A trained checkpoint as its official program wrote it."""

    document: dict[str, Any]
    state: dict[str, Tensor]
    samples: dict[str, Tensor]


def randomise(network: nn.Module, seed: int = 0) -> nn.Module:
    """Every weight and stored statistic away from its trivial value, of a trained network's size."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in network.state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator)
        if tensor.ndim == 2:
            tensor.copy_(noise / tensor.shape[1] ** 0.5)
        elif name.endswith("running_var"):
            tensor.copy_(0.5 + noise.abs())
        else:
            tensor.copy_(0.2 * noise + name.endswith("weight"))
    return network
