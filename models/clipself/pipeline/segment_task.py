"""A label for every pixel, written as a palette PNG, as run lengths, or as one heat map a label."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import numpy.typing as npt

from models.clipself.pipeline.engine import Seen, Wanted
from models.clipself.pipeline.maps import MapPlace, grey_png, heat, labelled, palette, palette_png
from models.clipself.pipeline.network_input import NetworkInput
from models.clipself.pipeline.request import choice, refused, share
from models.clipself.pipeline.run_lengths import encode_rle
from models.clipself.pipeline.tasks import Asked, Task

Json = dict[str, Any]
Array = npt.NDArray[np.float32]

MOST_NUMBERS = 2_000_000_000  # labels x pixels of one map
MOST_HEAT = 200_000_000  # the same where every number is written
MOST_COLOURS = 255
BACKGROUND = "background"


class Segment(Task):
    """What every pixel shows."""

    name = "segment"

    def __init__(self, asked: Asked, image: NetworkInput) -> None:
        super().__init__(asked, image)
        request, patch = asked.request, asked.spec.patch_size
        self._output = choice(request, "output", ("png", "rle", "heatmaps"))
        self._threshold = share(request, "background_threshold", None)
        cells = (image.valid[0] / patch, image.valid[1] / patch)
        grid = (max(round(cells[0]), 1), max(round(cells[1]), 1))
        size = image.original if choice(request, "resolution", ("image", "grid")) == "image" else grid
        self._place = MapPlace(size, cells)
        numbers = len(self.names) * size[0] * size[1]
        most = MOST_HEAT if self._output == "heatmaps" else MOST_NUMBERS
        if numbers > most:
            raise refused("resolution", f"the map has {numbers} numbers (labels x pixels), the limit is {most}",
                          'ask for fewer labels, or resolution: "grid"')  # fmt: skip
        if self._output == "png" and len(self.names) > MOST_COLOURS:
            raise refused("output", f"a palette has {MOST_COLOURS} labels, {len(self.names)} came", "ask for rle")

    def wanted(self, labels: Array) -> Wanted:
        return Wanted(labels=labels, dense=True)

    def write(self, seen: Seen) -> Json:
        assert seen.dense is not None
        scale = self.asked.spec.scale
        values = labelled(seen.dense, self._place, scale, self._threshold)
        colours = palette(len(self.names) + 1)
        heat_maps = None
        if self._output == "heatmaps":
            heat_maps = [b64encode(grey_png(level)).decode() for level in heat(seen.dense, self._place, scale)]
        counts = np.bincount(values.ravel(), minlength=len(colours))
        height, width = self._place.size
        return {
            "map_size": {"width": width, "height": height},
            "segments": [self._segment(v, values, colours[v], int(counts[v]), heat_maps) for v in self._shown(counts)],
            "png": b64encode(palette_png(values, colours)).decode() if self._output == "png" else None,
        }

    def _shown(self, counts: npt.NDArray[np.int64]) -> list[int]:
        """Values that occur; with heat maps every label."""
        return [v for v in range(len(counts)) if counts[v] or (v and self._output == "heatmaps")]

    def _segment(
        self, value: int, values: npt.NDArray[np.uint16], colour: list[int], pixels: int, heat_maps: list[str] | None
    ) -> Json:
        return {
            "label": self.names[value - 1] if value else BACKGROUND,
            "value": value,
            "color": colour,
            "pixels": pixels,
            "rle": encode_rle(values == value) if self._output == "rle" else None,
            "heatmap": heat_maps[value - 1] if heat_maps is not None and value else None,
        }
