"""The same cases in torch: what the official layout says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from export.detect_fvit import LEVEL_NAMES
from export.detect_graph import Tower
from export.detect_parity import Case, head_boxes, numbers
from export.detect_source import Opened
from export.runner import one_thread
from models.clipself.fvit.head import SIDE
from models.clipself.fvit.network import Fvit
from models.clipself.pipeline.spec import DetectSpec
from models.clipself.roi_align import roi_align

Arrays = dict[str, npt.NDArray[Any]]


def reference(case: Case, opened: Opened, spec: DetectSpec) -> Arrays:
    """Outputs by the case's and the output's name."""
    with one_thread(), torch.inference_mode():
        made = _made(case, opened, spec)
    return {f"{case.name}: {name}": tensor.numpy() for name, tensor in made.items()}


def _made(case: Case, opened: Opened, spec: DetectSpec) -> dict[str, Tensor]:
    inputs = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in case.inputs.items()}
    if case.graph == "text":
        assert opened.text is not None
        return {"text": opened.text(inputs["ids"])}
    if case.graph == "regions":
        cut = roi_align(inputs["dense"], inputs["boxes"], inputs["owner"], 1).flatten(1)
        return {"features": functional.normalize(cut, dim=-1)}
    if case.graph == "image":
        assert opened.image is not None
        return {"image": opened.image(inputs["pixels"])}
    if case.graph == "boxes":
        assert opened.fvit is not None
        return _boxes(opened.fvit, spec)
    return _vision(opened, inputs["pixels"])


def _vision(opened: Opened, pixels: Tensor) -> dict[str, Tensor]:
    if opened.fvit is not None:
        maps, dense = opened.fvit.backbone(pixels)
        levels = opened.fvit.pyramid(maps)
        found = opened.fvit.proposals(levels)
        made = dict(zip(LEVEL_NAMES, levels, strict=False)) | {"dense": dense}
        return made | {"scores": torch.cat([s for s, _ in found], 1), "deltas": torch.cat([d for _, d in found], 1)}
    tower: Tower = opened.visual
    made = {"dense": tower.dense(pixels)}
    return made if opened.image is not None else made | {"image": tower(pixels)}


def _boxes(network: Fvit, spec: DetectSpec) -> dict[str, Tensor]:
    """The box head on boxes read from the level their index says, in the levels' order."""
    side = spec.grid
    maps, dense = network.backbone(torch.from_numpy(numbers((2, 3), side, side, spec)))
    levels = network.pyramid(maps)
    boxes, owner = (torch.from_numpy(array) for array in head_boxes(side * spec.patch_size))
    order = [torch.arange(9)[torch.arange(9) % 4 == i] for i in range(4)]
    scales = [1 / stride for stride in network.config.strides]
    cut = torch.cat([roi_align(levels[i], boxes[m], owner[m], SIDE, scale=scales[i]) for i, m in enumerate(order)])
    labels, deltas = network.head(cut)
    every = torch.cat(order)
    features = roi_align(dense, boxes[every], owner[every], 1, scale=1 / spec.patch_size).flatten(1)
    return {"labels": labels, "deltas": deltas, "features": features}
