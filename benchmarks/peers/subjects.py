"""The four models everybody serves: a graph, requests for it, and the answers it must give."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.environments import HOME
from benchmarks.peers.graphs import BOXES, COLUMNS, SIDE, STEPS, write_mlp, write_region_scorer
from services.core.runtime import OnnxRuntime, RuntimeOptions

FOLDER = HOME / "subjects"
REQUESTS = 128  # different ones, sent around and around
MAX_BATCH_ROWS = 64  # Pressroom's default
MAX_DELAY_MS = 1.0  # of peers, which wait whether company comes or not: the shortest all of them can be told
SEED = 5

Array = npt.NDArray[np.float32]
Rows = dict[str, Array]


@dataclass(frozen=True)
class Subject:
    """A model under test; the first axis of rows is the request.

    inputs   float32 [REQUESTS, ...] by name, in the graph's order
    outputs  the same of the answers, computed one by one in this process
    """

    name: str
    title: str
    graph: Path
    inputs: Rows
    outputs: Rows

    @property
    def description(self) -> Path:
        """What a peer's program is told: see `benchmarks.peers.servers.session`."""
        return FOLDER / f"{self.name}.json"

    @property
    def samples(self) -> Path:
        """The inputs, as the exporter of Pressroom takes examples."""
        return FOLDER / f"{self.name}.npz"

    def answer(self, index: int) -> Array:
        """What a request must be answered with, all outputs behind each other."""
        return np.concatenate([rows[index].ravel() for rows in self.outputs.values()])

    def write(self) -> None:
        """The two files above."""
        told = {
            "name": self.name,
            "graph": str(self.graph),
            "inputs": [_slot(name, rows) for name, rows in self.inputs.items()],
            "outputs": [_slot(name, rows) for name, rows in self.outputs.items()],
            "max_batch_rows": MAX_BATCH_ROWS,
            "max_delay_ms": MAX_DELAY_MS,
        }
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.description.write_text(json.dumps(told, indent=1) + "\n")
        np.savez(self.samples, **self.inputs)  # type: ignore[arg-type]  # names are words


def _slot(name: str, rows: Array) -> dict[str, Any]:
    return {"name": name, "dtype": str(rows.dtype), "shape": rows.shape[1:]}


def _subject(name: str, title: str, graph: Path, inputs: Rows) -> Subject:
    runtime = OnnxRuntime(graph, RuntimeOptions(threads=1))
    answers = [runtime.run({key: rows[i : i + 1] for key, rows in inputs.items()}) for i in range(REQUESTS)]
    outputs = {key: np.concatenate([answer[key] for answer in answers]) for key in answers[0]}
    found = Subject(name, title, graph, inputs, outputs)
    found.write()
    return found


def _forecaster(name: str, title: str) -> Subject:
    """The graph of a bundled forecaster on ETTh1, and windows of the test rows as its artifact scales them."""
    from benchmarks.local import local_model
    from benchmarks.windows import split_windows
    from export.artifact import open_artifact
    from pressroom.bundled import press_bundled

    press_bundled()
    windows = split_windows()
    step = len(windows) // REQUESTS
    artifact = open_artifact(f"{name}-etth1")
    inputs = local_model(artifact.manifest.name).tensors(windows, slice(0, step * REQUESTS, step))
    rows = {key: np.ascontiguousarray(tensor) for key, tensor in inputs.items()}
    return _subject(f"{name}-graph", title, artifact.file(artifact.manifest.runtime.file), rows)


def _regions() -> Subject:
    from export.artifact import open_artifact
    from models.clipself.image import normalise
    from pressroom.bundled_detect import NAMES, press_clips

    press_clips()
    FOLDER.mkdir(parents=True, exist_ok=True)
    graph = FOLDER / "region-scorer.onnx"
    write_region_scorer(open_artifact(NAMES[0]), graph)
    rng = np.random.default_rng(SEED)
    pixels = np.stack([normalise(crop) for crop in _crops(rng)])
    corner = rng.uniform(0, SIDE - 24, (REQUESTS, BOXES, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(4, 24, corner.shape)], axis=2).astype(np.float32)
    return _subject("region-scorer", "CLIPSelf region scorer", graph, {"pixels": pixels, "boxes": boxes})


def _crops(rng: np.random.Generator) -> list[npt.NDArray[np.uint8]]:
    """Squares cut out of the bundled photographs."""
    from PIL import Image

    from pressroom.bundled import DATA

    photographs = [np.asarray(Image.open(path).convert("RGB")) for path in sorted(DATA.glob("photographs/*.jpg"))]
    crops = []
    for i in range(REQUESTS):
        photograph = photographs[i % len(photographs)]
        top, left = (int(rng.integers(0, size - SIDE)) for size in photograph.shape[:2])
        crops.append(photograph[top : top + SIDE, left : left + SIDE])
    return crops


def _mlp() -> Subject:
    FOLDER.mkdir(parents=True, exist_ok=True)
    graph = FOLDER / "mlp.onnx"
    write_mlp(graph)
    x = np.random.default_rng(SEED).standard_normal((REQUESTS, STEPS, COLUMNS)).astype(np.float32)
    return _subject("mlp", "small MLP", graph, {"x": x})


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "itransformer": lambda: _forecaster("itransformer", "iTransformer, ETTh1"),
    "card": lambda: _forecaster("card", "CARD, ETTh1"),
    "regions": _regions,
    "mlp": _mlp,
}
