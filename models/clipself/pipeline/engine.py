"""One artifact's graphs put together: images in, cosines, maps and judged proposals out. Whole batches, one thread.

    look      images and what is wanted of each -> what was seen of each; one pass of the image tower for the batch,
              one RoIAlign call for the boxes of all of its images
    classify  images -> embeddings of whole images
    embed     token ids -> text embeddings

The graphs come as functions from named tensors to named tensors, so that the exporter and the service run the same
arithmetic on sessions of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.clipself.pipeline.detector import Judged, Proposer, levels_of
from models.clipself.pipeline.scoring import cosine, unit
from models.clipself.pipeline.spec import DetectSpec
from models.clipself.pipeline.tables import PositionTables

Array = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Tensors = dict[str, npt.NDArray[Any]]
Run = Callable[[Tensors], Tensors]

VISION, IMAGE, TEXT, REGIONS, BOXES = "vision.onnx", "image.onnx", "text.onnx", "regions.onnx", "boxes.onnx"
ARRAYS = "arrays.safetensors"  # position tables and label embeddings
POSITION, IMAGE_POSITION, VOCABULARY, BACKGROUND = "position", "image_position", "vocabulary", "background"

PATCHES = 8192  # of one pass: larger batches go through in parts, so that memory is bounded
LEVELS = 4


@dataclass(frozen=True, kw_only=True)
class Graphs:
    """What an artifact can run. image, text, boxes are None where it has none."""

    vision: Run
    regions: Run
    image: Run | None
    text: Run | None
    boxes: Run | None
    tables: PositionTables
    image_tables: PositionTables

    @classmethod
    def of(cls, spec: DetectSpec, files: Collection[str], open_graph: Callable[[str], Run], arrays: Tensors) -> Graphs:
        """Those among an artifact's files. open_graph: a file's name -> the graph, ready to run."""

        def perhaps(name: str) -> Run | None:
            return open_graph(name) if name in files else None

        head_width = spec.head_width if spec.variant == "eva" else None
        tables = PositionTables(arrays[POSITION], head_width, spec.pretrained_grid)
        others = arrays.get(IMAGE_POSITION)
        return cls(
            vision=open_graph(VISION),
            regions=open_graph(REGIONS),
            image=perhaps(IMAGE),
            text=perhaps(TEXT),
            boxes=perhaps(BOXES),
            tables=tables,
            image_tables=tables if others is None else PositionTables(others, head_width, spec.pretrained_grid),
        )


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a caller wants of one image.

    boxes      float32 [R, 4] in network pixels
    masks      bool [M, h, w] on the patch grid
    labels     float32 [C, E], unit norm; what boxes, masks and the map are compared with
    dense      the map of cosines is wanted
    proposals  height and width of the picture inside its square: judged proposals are wanted; None: they are not
    """

    labels: Array
    boxes: Array | None = None
    masks: Mask | None = None
    dense: bool = False
    proposals: tuple[int, int] | None = None


@dataclass(frozen=True)
class Seen:
    """What was seen of one image.

    regions  cosines float32 [R + M, C], boxes first
    dense    cosines float32 [C, h, w]
    """

    regions: Array | None
    dense: Array | None
    judged: Judged | None


class Engine:
    """Runs the graphs of one artifact."""

    def __init__(self, spec: DetectSpec, graphs: Graphs) -> None:
        self.spec = spec
        self.graphs = graphs
        self._propose = None if spec.detector is None else Proposer(spec.detector)

    def look(self, pixels: Array, wanted: Sequence[Wanted]) -> list[Seen]:
        """pixels float32 [B, 3, S, S]."""
        patch = self.spec.patch_size
        grid = (pixels.shape[2] // patch, pixels.shape[3] // patch)
        tables = self.graphs.tables.of(grid)
        each = max(1, PATCHES // (grid[0] * grid[1]))
        seen: list[Seen] = []
        for first in range(0, len(pixels), each):
            part = slice(first, first + each)
            maps = self.graphs.vision({"pixels": pixels[part], **tables})
            seen += self._see(maps, wanted[part], grid)
        return seen

    def classify(self, pixels: Array) -> Array:
        """pixels float32 [B, 3, S, S] -> embeddings [B, E], unit norm."""
        patch = self.spec.patch_size
        grid = (pixels.shape[2] // patch, pixels.shape[3] // patch)
        run, tables = self.graphs.vision, self.graphs.tables
        if self.graphs.image is not None:
            run, tables = self.graphs.image, self.graphs.image_tables
        each = max(1, PATCHES // (grid[0] * grid[1]))
        parts = [pixels[first : first + each] for first in range(0, len(pixels), each)]
        return unit(np.concatenate([run({"pixels": part, **tables.of(grid)})["image"] for part in parts]))

    def embed(self, ids: npt.NDArray[np.int64]) -> Array:
        """Token ids [N, T] -> embeddings [N, E], unit norm."""
        assert self.graphs.text is not None
        return unit(self.graphs.text({"ids": ids})["text"])

    def _see(self, maps: Tensors, wanted: Sequence[Wanted], grid: tuple[int, int]) -> list[Seen]:
        features = self._region_features(maps["dense"], [one.boxes for one in wanted])
        judged = self._judge(maps, wanted, grid)
        seen = []
        for i, one in enumerate(wanted):
            found = [part for part in (features[i], _masked(maps["dense"][i], one.masks)) if part is not None]
            regions = cosine(np.concatenate(found), one.labels) if found else None
            dense = None
            if one.dense:
                dense = np.tensordot(one.labels, maps["dense"][i], axes=1)
            seen.append(Seen(regions, dense, judged[i]))
        return seen

    def _region_features(self, dense: Array, boxes: Sequence[Array | None]) -> list[Array | None]:
        """RoIAlign of the boxes of all images at once: features [R, E] of each image that has boxes."""
        joined, owner, counts = _join(boxes)
        if not len(joined):
            return [None if one is None else np.zeros((0, dense.shape[1]), np.float32) for one in boxes]
        cells = joined / np.float32(self.spec.patch_size)
        features = self.graphs.regions({"dense": dense, "boxes": cells, "owner": owner})["features"]
        parts = np.split(features, np.cumsum(counts)[:-1])
        return [None if one is None else part for one, part in zip(boxes, parts, strict=True)]

    def _judge(self, maps: Tensors, wanted: Sequence[Wanted], grid: tuple[int, int]) -> list[Judged | None]:
        if self._propose is None or self.graphs.boxes is None:
            return [None] * len(wanted)
        proposals = [
            None if one.proposals is None else self._propose(maps["scores"][i], maps["deltas"][i], grid, one.proposals)
            for i, one in enumerate(wanted)
        ]
        joined, owner, counts = _join(proposals)
        if not len(joined):
            return [None if one is None else _nothing(self.spec.embed_dim) for one in proposals]
        said = self._box_head(maps, joined, owner)
        ends = np.cumsum(counts)[:-1]
        parts = zip(*(np.split(said[name], ends) for name in ("labels", "deltas", "features")), strict=True)
        return [None if boxes is None else Judged(boxes, *part) for boxes, part in zip(proposals, parts, strict=True)]

    def _box_head(self, maps: Tensors, boxes: Array, owner: npt.NDArray[np.int64]) -> Tensors:
        """The head takes boxes level by level; its answers are put back into the order of the boxes."""
        assert self.graphs.boxes is not None
        level = levels_of(boxes)
        members = [np.flatnonzero(level == i) for i in range(LEVELS)]
        feed = {name: maps[name] for name in ("dense", *(f"level{i}" for i in range(LEVELS)))}
        feed |= {f"boxes{i}": boxes[members[i]] for i in range(LEVELS)}
        feed |= {f"owner{i}": owner[members[i]] for i in range(LEVELS)}
        back = np.argsort(np.concatenate(members), kind="stable")
        return {name: tensor[back] for name, tensor in self.graphs.boxes(feed).items()}


def _join(boxes: Sequence[Array | None]) -> tuple[Array, npt.NDArray[np.int64], list[int]]:
    """Boxes of all images, the image of each, and how many each image has."""
    counts = [0 if one is None else len(one) for one in boxes]
    joined = np.concatenate([np.zeros((0, 4), np.float32), *(one for one in boxes if one is not None)])
    return joined, np.repeat(np.arange(len(boxes), dtype=np.int64), counts), counts


def _masked(dense: Array, masks: Mask | None) -> Array | None:
    """Mean of the dense map [E, h, w] over each mask's cells [M, h, w]: features [M, E]."""
    if masks is None:
        return None
    flat = masks.reshape(len(masks), -1).astype(np.float32)
    summed: Array = flat @ dense.reshape(len(dense), -1).T
    mean: Array = summed / np.maximum(flat.sum(axis=1, keepdims=True), 1)
    return mean


def _nothing(width: int) -> Judged:
    empty = np.zeros((0, width), np.float32)
    return Judged(np.zeros((0, 4), np.float32), empty, np.zeros((0, 4), np.float32), empty)
