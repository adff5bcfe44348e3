"""The int8 form of an image-text tower: its graphs quantised, and what that does to its embeddings, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from export import detect_parity as parity
from export import int8
from export.artifact import Metric
from export.errors import OptionError
from export.parity import Tolerance
from models.clipself.pipeline.engine import IMAGE, TEXT, VISION, Graphs
from models.clipself.pipeline.spec import DetectSpec

TOLERANCE = Tolerance(atol=0.25, rtol=0.05)  # of the output's spread, at least 1; measured on the bundled towers: 0.12
LEAST_COSINE = 0.97  # of a tower's embeddings with those of float32, on average; measured: 0.99
SCORES = 0.02  # what another machine's arithmetic may change in an answer


def check_kind(is_detector: bool) -> None:
    """Raises OptionError for a detector: rounding reorders its proposals, so none could be compared."""
    if is_detector:
        raise OptionError("int8 is for image-text towers, not for F-ViT detectors", "export it as fp32")


def quantise_graphs(files: Path) -> list[dict[str, Any]]:
    """Every tower's graph in place; what the certificate says of them. Raises ConversionError."""
    graphs = [files / name for name in (VISION, IMAGE, TEXT) if (files / name).exists()]
    return [{"graph": graph.name, **int8.quantise(graph).as_json()} for graph in graphs]


def cosines(spec: DetectSpec, fp32: Graphs, quantised: Graphs) -> list[Metric]:
    """Cosines of each tower's embeddings in both precisions, over the certificate's cases: mean and least.

    Raises ParityError if a mean is below LEAST_COSINE.
    """
    found: dict[str, list[npt.NDArray[np.float64]]] = {}
    for case in parity.plan(spec, fp32):
        if case.graph in ("vision", "image", "text"):
            after = parity.outputs(case, spec, quantised)
            for key, before in parity.outputs(case, spec, fp32).items():
                found.setdefault(key.rpartition(": ")[2], []).append(_cosine(before, after[key]))
    metrics = []
    for output, parts in sorted(found.items()):
        values = np.concatenate(parts)
        if values.mean() < LEAST_COSINE:
            raise int8.refused(
                f"{output} embeddings have a mean cosine of {values.mean():.3f} with those of float32, "
                f"at least {LEAST_COSINE} is asked for; nothing was stored"
            )
        for name, value in (("cosine", values.mean()), ("least_cosine", values.min())):
            metrics.append(_metric(f"{output}_{name}_with_fp32", float(value)))
    return metrics


def _metric(name: str, value: float) -> Metric:
    return Metric(name=name, value=round(value, 5), data="the certificate's inputs", split="seeded", unit="1")


def _cosine(before: npt.NDArray[Any], after: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Of embeddings along axis 1: [B, E] or [B, E, h, w] -> flat."""
    a, b = np.moveaxis(before.astype(np.float64), 1, -1), np.moveaxis(after.astype(np.float64), 1, -1)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    cosine: npt.NDArray[np.float64] = ((a * b).sum(axis=-1) / lengths).ravel()
    return cosine
