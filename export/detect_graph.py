"""CLIPSelf's networks as ONNX graphs, self-contained and dynamic in batch, image size and number of regions.

    vision    pixels [B, 3, H, W], position [h, w, D], EVA: cosine, sine [h, w, d] -> dense [B, E, h, w], image [B, E]
    image     the same inputs -> image [B, E]: other weights for whole images
    text      ids [N, T] -> text [N, E]

H and W are h and w patches. A grid's tables are inputs, because resampling them is no part of the network: whoever
runs the graph keeps those of the sizes it serves (`models.clipself.pipeline.tables`). Attention is onnxruntime's
MultiHeadAttention, which never holds the T x T scores: plain attention would need 0.8 GB a layer at 1024 pixels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import torch
from onnxscript import opset20 as op
from onnxscript import values
from torch import Tensor, nn

from export.onnx_graph import write_graph
from models.clipself.config import VisionConfig
from models.clipself.eva import EvaTower
from models.clipself.openai import OpenAiTower
from models.clipself.position import Tables
from models.clipself.text import TextTower

Tower = EvaTower | OpenAiTower
OUTPUTS = {"both": ["dense", "image"], "dense": ["dense"], "image": ["image"]}
Shapes = tuple[dict[int, Any], ...]

_FUSED = "MultiHeadAttention"


def _fused_attention() -> values.Op:
    """onnxruntime's own operator, of which the exporter knows nothing."""
    any_float = [("T", ["tensor(float)"], "")]
    tensors = [onnx.defs.OpSchema.FormalParameter(name, "T") for name in ("query", "key", "value")]
    whole = onnx.defs.OpSchema.AttrType.INT
    attributes = [onnx.defs.OpSchema.Attribute(name, whole, required=False) for name in ("num_heads", "unidirectional")]
    output = [onnx.defs.OpSchema.FormalParameter("output", "T")]
    schema = onnx.defs.OpSchema(
        _FUSED, "com.microsoft", 1, inputs=tensors, outputs=output, type_constraints=any_float, attributes=attributes
    )
    return values.Op(values.Opset("com.microsoft", 1), _FUSED, schema)


_MULTI_HEAD_ATTENTION = _fused_attention()


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, **_: Any
) -> Any:
    """Scaled dot-product attention [B, heads, T, d] as one fused node."""
    heads = query.shape[1]
    flat: Any = [0, 0, -1]
    split: Any = [0, 0, heads, -1]
    joined = [op.Reshape(op.Transpose(one, perm=[0, 2, 1, 3]), flat) for one in (query, key, value)]
    mixed = _MULTI_HEAD_ATTENTION(*joined, num_heads=heads, unidirectional=int(is_causal))
    return op.Transpose(op.Reshape(mixed, split), perm=[0, 2, 1, 3])


TRANSLATIONS = {torch.ops.aten.scaled_dot_product_attention.default: _attention}


class VisionGraph(nn.Module):
    """An image tower that is told its tables. wanted: "both", or "dense" or "image" alone."""

    def __init__(self, tower: Tower, wanted: str) -> None:
        super().__init__()
        self.tower, self.wanted = tower, wanted
        self.first = nn.Parameter(tower.position[:1].clone(), requires_grad=False)

    def forward(
        self, pixels: Tensor, position: Tensor, cosine: Tensor | None = None, sine: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        tables = flat_tables(self.first, position, cosine, sine)
        made = dict(zip(("dense", "image"), self.tower.both(pixels, tables), strict=True))
        return tuple(made[name] for name in OUTPUTS[self.wanted])


def flat_tables(first: Tensor, position: Tensor, cosine: Tensor | None, sine: Tensor | None) -> Tables:
    """Tables by row and column -> by patch, the class token's position in front."""
    rotary = None if cosine is None or sine is None else (cosine.flatten(0, 1), sine.flatten(0, 1))
    return Tables(torch.cat([first, position.flatten(0, 1)]), rotary)


def write_vision(tower: Tower, path: Path, wanted: str = "both") -> None:
    """Raises ConversionError with the exporter's reason."""
    example, shapes = vision_example(tower.config)
    write(VisionGraph(tower, wanted), example, shapes, vision_inputs(tower.config), OUTPUTS[wanted], path)


def vision_inputs(config: VisionConfig) -> list[str]:
    """Names of what an image tower's graph takes."""
    return ["pixels", "position", *(("cosine", "sine") if config.variant == "eva" else ())]


def vision_example(config: VisionConfig, least: int = 1) -> tuple[tuple[Tensor, ...], Shapes]:
    """Inputs the exporter traces with, and which of their axes are dynamic. least: patches of a side."""
    dims = {"min": least, "max": 4096}
    rows, columns, patch = torch.export.Dim("rows", **dims), torch.export.Dim("columns", **dims), config.patch_size
    generator = torch.Generator().manual_seed(0)
    grid = (3 + least, 5 + least)
    pixels = torch.randn(3, 3, grid[0] * patch, grid[1] * patch, generator=generator)
    position = torch.randn(*grid, config.width, generator=generator)
    tensors: tuple[Tensor, ...] = (pixels, position)
    by_cell: dict[int, Any] = {0: rows, 1: columns}
    shapes: Shapes = ({0: torch.export.Dim("batch", min=1), 2: patch * rows, 3: patch * columns}, by_cell)
    if config.variant == "eva":
        turned = torch.randn(2, *grid, config.head_width, generator=generator)
        tensors, shapes = (*tensors, *turned.cos()), (*shapes, by_cell, by_cell)
    return tensors, shapes


def write_text(tower: TextTower, context_length: int, path: Path) -> None:
    """Raises ConversionError with the exporter's reason."""
    length = torch.export.Dim("length", min=2, max=context_length)
    ids = torch.randint(1, 9, (3, 5), generator=torch.Generator().manual_seed(0))
    write(tower, (ids,), ({0: torch.export.Dim("batch", min=1), 1: length},), ["ids"], ["text"], path)


def write(
    module: nn.Module, example: tuple[Tensor, ...], shapes: Shapes, inputs: list[str], outputs: list[str], path: Path
) -> None:
    """One module as one file. Raises ConversionError with the exporter's reason."""
    write_graph(
        module.eval(),
        example,
        path,
        inputs=inputs,
        outputs=outputs,
        dynamic=shapes,
        title=path.stem,
        remedy="report the checkpoint",
        translations=TRANSLATIONS,
    )
