"""Raw requests through an artifact's files, one after the other: what its certificate and its example are made with.

The exporter's own way, so that a certificate is made without the serving code it vouches for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from export.detect_engine import open_engine
from models.clipself.pipeline import engine
from models.clipself.pipeline.detect_task import Detect
from models.clipself.pipeline.image_field import read_image
from models.clipself.pipeline.label_embeddings import NOTHING, LabelEmbedder
from models.clipself.pipeline.network_input import NetworkInput
from models.clipself.pipeline.request import Labels, Limits, check_fields, read_labels
from models.clipself.pipeline.spec import DetectSpec
from models.clipself.pipeline.tasks import Asked, Regions

Json = dict[str, Any]
Array = npt.NDArray[np.float32]


class DetectPipeline:
    """Answers requests of `regions` and `detect` from the files of an artifact."""

    def __init__(self, folder: Path, spec: DetectSpec) -> None:
        self.engine = open_engine(folder, spec)
        self._embedder = LabelEmbedder(self.engine, load_file(folder / engine.ARRAYS))

    def answer(self, request: Json) -> Json:
        """The answer's own fields, without the explanation of a call."""
        task = Detect if request["task"] == "detect" else Regions
        check_fields(request, task.name)
        asked, image = self.read(request)
        made = task(asked, image)
        embeddings = self.embeddings(asked.labels, background=task.background)
        (seen,) = self.engine.look(image.pixels[None], [made.wanted(embeddings)])
        return made.common() | made.write(seen)

    def read(self, request: Json) -> tuple[Asked, NetworkInput]:
        """A request's labels, and its image as the network takes it."""
        limits = Limits()
        asked = Asked(request, self.engine.spec, limits, read_labels(request, self.engine.spec, limits))
        return asked, read_image(request["image"], limits, asked.prepare, self.engine.spec)

    def embeddings(self, labels: Labels, *, background: bool) -> Array:
        """[C, E], or [C + 1, E] with the background's last."""
        rows = [self._one(name, labels.templates) for name in labels.names]
        if background:
            stored = self._embedder.background()
            rows.append(stored if stored is not None else self._one(NOTHING, labels.templates))
        return np.stack(rows)

    def _one(self, name: str, templates: tuple[str, ...]) -> Array:
        known = self._embedder.known(name, templates)
        return self._embedder.embed(name, templates) if known is None else known
