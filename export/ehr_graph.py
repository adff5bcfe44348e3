"""MOTOR as an ONNX graph: one self-contained file, dynamic batch, length and bag, the same bytes every time.

In   tokens   int64 [B, L, K]    ids of each position's bag
     weights  float32 [B, L, K]  0 where a bag is padded
     ages     float32 [B, L]     days since birth
     times    float32 [B, L, M]  standardised time channels; only if the network reads any
     last     int64 [B]          the position that answers; what follows it is padding, or the future
Out  representation  float32 [B, D]
     features        float32 [B, b, r]  frozen features of each time bin; a task is a vector over them
Heads of tasks stay outside: a new task needs no new graph.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from export.onnx_graph import write_graph
from models.motor.network import Motor

OUTPUTS = ("representation", "features")


class Answering(nn.Module):
    """The network with one answering position a patient."""

    def __init__(self, network: Motor) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        tokens, weights, ages, *times, last = inputs
        representations = self.network(tokens, weights, ages, times[0] if times else None)
        chosen = representations[torch.arange(last.shape[0], device=last.device), last]
        return chosen, self.network.head.features(chosen)


def input_names(network: Motor) -> tuple[str, ...]:
    """Names of the graph's inputs, in order."""
    times = ("times",) if network.config.time_channels else ()
    return ("tokens", "weights", "ages", *times, "last")


def convert(network: Motor, path: Path) -> None:
    """Write the network to `path`. Raises ConversionError with the exporter's reason."""
    names = input_names(network)
    write_graph(
        Answering(network).eval(),
        _example(network),
        path,
        inputs=names,
        outputs=OUTPUTS,
        dynamic=(tuple(_axes()[name] for name in names),),
        title="motor",
    )


def _example(network: Motor) -> tuple[Tensor, ...]:
    """Sizes none of which the tracer would take for constants."""
    batch, length, bag = 3, 300, 2  # more than one block of banded attention
    times = [torch.zeros(batch, length, network.config.time_channels)] if network.config.time_channels else []
    tokens = torch.ones(batch, length, bag, dtype=torch.long)
    ages = torch.arange(length, dtype=torch.float32).expand(batch, -1).contiguous()
    return (tokens, torch.ones(batch, length, bag), ages, *times, torch.tensor([299, 1, 2]))


def _axes() -> dict[str, dict[int, Any]]:
    batch, length, bag = (torch.export.Dim(name, min=1) for name in ("batch", "length", "bag"))
    bags = {0: batch, 1: length, 2: bag}
    positions = {0: batch, 1: length}
    return {"tokens": bags, "weights": bags, "ages": positions, "times": positions, "last": {0: batch}}
