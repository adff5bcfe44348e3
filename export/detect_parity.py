"""The certificate of an image artifact: every graph, and the whole pipeline, against the official layout in torch.

    graph      each graph's outputs on batches of 1 and 7 images at two sizes, of prompts, and of boxes
    pipeline   an 8-bit picture -> square -> graphs -> cosines of boxes, or detections, in numpy, against torch

A difference is in units of the output's own spread, which is its standard deviation but at least 1; it holds if it is
at most atol + rtol * |value|. One breach fails the export. Inputs come from seeds, and of large outputs a fixed sample
travels with the artifact (`parity.safetensors`), so that the comparison can be repeated anywhere without torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from export.artifact import PARITY, Artifact
from export.environment import cpu_flags, versions
from export.errors import ParityError
from export.parity import Tolerance
from models.clipself.pipeline.engine import Graphs, Tensors
from models.clipself.pipeline.spec import DetectSpec

CASES_FILE = "parity.safetensors"
TOLERANCE = Tolerance(atol=5e-5, rtol=1e-4)  # float32 sums in another order; measured: up to 1e-5
SAMPLE = 16_384  # numbers kept of one output
BATCHES, SCALES = (1, 7), (1, 2)  # images, and native sizes

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """Inputs of one graph, made from its name alone."""

    graph: str
    name: str
    inputs: Tensors


@dataclass(frozen=True)
class CaseResult:
    """Largest differences of one output of one case."""

    name: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    holds: bool


def plan(spec: DetectSpec, graphs: Graphs) -> Iterator[Case]:
    """Every case of an artifact."""
    for scale in SCALES:
        rows = columns = spec.grid * scale
        for batch in BATCHES:
            tables, pixels = graphs.tables.of((rows, columns)), numbers((batch, 3), rows, columns, spec)
            yield Case("vision", f"vision {batch} x {rows * spec.patch_size} px", {"pixels": pixels, **tables})
            if graphs.image is not None:
                tables = graphs.image_tables.of((rows, columns))
                yield Case("image", f"image {batch} x {rows * spec.patch_size} px", {"pixels": pixels, **tables})
    wide = (max(spec.grid - 1, 4), spec.grid + 2)
    yield Case("vision", "vision, rectangular", {"pixels": numbers((2, 3), *wide, spec), **graphs.tables.of(wide)})
    yield Case("regions", "regions, 7 boxes on 3 maps", _region_case(spec))
    if graphs.text is not None:
        for batch in BATCHES:
            yield Case("text", f"text, {batch} prompts", {"ids": _prompts(batch, spec)})
    if graphs.boxes is not None:
        yield Case("boxes", "boxes, 9 on 2 images", {})  # its inputs are outputs of the vision graph


def numbers(leading: tuple[int, ...], rows: int, columns: int, spec: DetectSpec) -> npt.NDArray[np.float32]:
    """Normal numbers as pixels of a grid, the same on every machine."""
    shape = (*leading, rows * spec.patch_size, columns * spec.patch_size)
    return np.random.default_rng(rows * 1000 + columns).standard_normal(shape, dtype=np.float32)


def head_boxes(side: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Boxes of every size on a square, and their images: what the box head is tried on."""
    generator = np.random.default_rng(5)
    corners = generator.uniform(0, side, (9, 2, 2)).astype(np.float32)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    return boxes, np.arange(9, dtype=np.int64) % 2


def compare(name: str, got: Array, reference: Array, tolerance: Tolerance = TOLERANCE) -> CaseResult:
    """Both of one shape; the reference may be a sample of what the graph made."""
    if got.shape != reference.shape or not np.isfinite(got).all():
        return CaseResult(name, reference.shape, float("inf"), float("inf"), False)
    if reference.size == 0:
        return CaseResult(name, reference.shape, 0.0, 0.0, True)
    spread = max(float(reference.std()), 1.0)
    apart, wanted = np.abs(got.astype(np.float64) - reference) / spread, np.abs(reference) / spread
    large = wanted > 0.01
    relative = float((apart[large] / wanted[large]).max()) if large.any() else 0.0
    holds = bool((apart <= tolerance.atol + tolerance.rtol * wanted).all())
    return CaseResult(name, reference.shape, _short(float(apart.max())), _short(relative), holds)


def sample(values: Array) -> Array:
    """A fixed choice of an output's numbers; all of a small one."""
    flat = values.ravel()
    if flat.size <= SAMPLE:
        return flat
    places = np.random.default_rng(flat.size).choice(flat.size, SAMPLE, replace=False)
    return flat[np.sort(places)]


def require(results: list[CaseResult], tolerance: Tolerance = TOLERANCE) -> None:
    """Raise ParityError for the first breach."""
    for result in results:
        if not result.holds:
            raise ParityError(
                f"parity breach: {result.name} differs from the official layout in torch by {result.max_abs:.3g}, "
                f"tolerance {tolerance.atol:g} + {tolerance.rtol:g} * |value|; nothing was stored",
                "check sizes that leave no trace in the tensors: head_width, pt_hw_seq_len, quick_gelu",
            )


def certificate(results: list[CaseResult], opset: int, tolerance: Tolerance = TOLERANCE) -> dict[str, Any]:
    """`parity.json`. Holds no dates and no host names."""
    return {
        "format_version": 1,
        "verdict": "ok" if all(result.holds for result in results) else "breach",
        "max_abs": max(result.max_abs for result in results),
        "max_rel": max(result.max_rel for result in results),
        "unit": "the output's own spread, at least 1",
        "tolerance": asdict(tolerance),
        "stages": ["official layout, torch eager, float32", "ONNX graphs in onnxruntime, CPU, one thread"],
        "runtime": "ONNX graphs in onnxruntime",
        "opset": opset,
        "versions": versions(),
        "cpu": cpu_flags(),
        "cases": [{**asdict(result), "shape": list(result.shape)} for result in results],
    }


def save_references(references: Mapping[str, Array], path: Path) -> None:
    """A sample of every reference output, for `recheck`."""
    save_file({name: np.ascontiguousarray(sample(values)) for name, values in references.items()}, path)


def recheck(artifact: Artifact, spec: DetectSpec, graphs: Graphs) -> list[CaseResult]:
    """Repeat the recorded comparison of a stored artifact, without torch."""
    certified = artifact.read_json(PARITY)
    recorded, tolerance = {entry["name"] for entry in certified["cases"]}, Tolerance(**certified["tolerance"])
    references = load_file(artifact.file(CASES_FILE))
    results = [
        compare(name, sample(values), references[name], tolerance)
        for case in plan(spec, graphs)
        for name, values in outputs(case, spec, graphs).items()
        if name in references
    ]
    if missing := sorted(recorded - {result.name for result in results} - PIPELINE_ONLY):
        results.append(CaseResult(missing[0], (), float("inf"), float("inf"), False))
    return results


PIPELINE = "pipeline"
PIPELINE_ONLY = frozenset({f"{PIPELINE}: cosines of boxes", f"{PIPELINE}: scores of detections",
                           f"{PIPELINE}: boxes of detections"})  # fmt: skip


def outputs(case: Case, spec: DetectSpec, graphs: Graphs) -> Tensors:
    """What the artifact's graph makes of a case, by the case's and the output's name."""
    run = {"vision": graphs.vision, "image": graphs.image, "regions": graphs.regions, "text": graphs.text}
    if case.graph == "boxes":
        assert graphs.boxes is not None
        made = graphs.boxes(box_inputs(spec, graphs))
    else:
        graph = run[case.graph]
        assert graph is not None
        made = graph(case.inputs)
    return {f"{case.name}: {name}": values for name, values in made.items()}


def box_inputs(spec: DetectSpec, graphs: Graphs) -> Tensors:
    """The box head's inputs: maps of two images, and boxes all read from the level their index says."""
    side = spec.grid
    maps = graphs.vision({"pixels": numbers((2, 3), side, side, spec), **graphs.tables.of((side, side))})
    boxes, owner = head_boxes(side * spec.patch_size)
    feed = {name: maps[name] for name in ("dense", "level0", "level1", "level2", "level3")}
    for i in range(4):
        members = np.arange(9) % 4 == i
        feed |= {f"boxes{i}": boxes[members], f"owner{i}": owner[members]}
    return feed


def _region_case(spec: DetectSpec) -> Tensors:
    rows, columns = spec.grid, spec.grid + 1
    generator = np.random.default_rng(3)
    dense = generator.standard_normal((3, spec.embed_dim, rows, columns), dtype=np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    corners = generator.uniform(-1, 1.2, (7, 2, 2)) * [columns, rows]
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1).astype(np.float32)
    return {"dense": dense, "boxes": boxes, "owner": np.array([0, 0, 1, 2, 1, 0, 2], dtype=np.int64)}


def _prompts(batch: int, spec: DetectSpec) -> npt.NDArray[np.int64]:
    """Token ids of prompts of different lengths."""
    length = min(spec.context_length, 12)
    ids = np.random.default_rng(batch).integers(1, 49_000, (batch, length))
    for i, row in enumerate(ids):
        end = length - 1 - i % max(length - 2, 1)
        row[0], row[end], row[end + 1 :] = 49_406, 49_407, 0
    return ids.astype(np.int64)


def _short(value: float) -> float:
    """Three significant digits: a certificate is read by people."""
    return float(f"{value:.2e}")
