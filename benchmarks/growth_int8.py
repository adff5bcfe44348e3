"""What int8 saves and costs: the bundled forecasters and the CLIPSelf tower pressed in both precisions."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np
from pressroom_client import Client

from benchmarks.detection_accuracy import measure as box_accuracy
from benchmarks.local import cpu_ms_per_row
from benchmarks.report import table
from benchmarks.server import gateway
from export.artifact import Artifact, open_artifact
from services.core.runtime import OnnxRuntime, RuntimeOptions
from services.core.tensors import Tensors

FORECASTERS, CLIP = ("itransformer-etth1", "card-etth1"), "clipself-tiny"
SUFFIX = "-int8"
ROWS, ROUNDS, CPU_SECONDS = (1, 32), 7, 0.1
SPEED_HEADINGS = ["graph", "bytes, fp32", "int8", "rows", "CPU ms a row, fp32", "int8", "fp32 / int8"]
COST_HEADINGS = ["artifact", "figure", "fp32", "int8", "difference"]
MATES_HEADINGS = ["artifact", "largest difference to float32", "tolerance", "by what shares the batch"]


@dataclass(frozen=True)
class Speed:
    """CPU ms a row of one graph in both precisions, taken in turns."""

    graph: str
    fp32_bytes: int
    int8_bytes: int
    rows: int
    fp32_ms: float
    int8_ms: float

    def cells(self) -> list[str]:
        sizes = [f"{self.fp32_bytes:,}", f"{self.int8_bytes:,}", str(self.rows)]
        return [self.graph, *sizes, f"{self.fp32_ms:.3f}", f"{self.int8_ms:.3f}", f"{self.fp32_ms / self.int8_ms:.2f}"]


def press_pairs() -> None:
    """Both precisions of everything, in the current store; what is there already stays."""
    from dataclasses import replace

    from export import detect, forecast
    from pressroom.bundled import BUNDLED, job, press_bundled
    from pressroom.bundled_detect import AFTER, BEFORE, CONFIG, LICENCE, SIZE, press_clips

    press_bundled()
    press_clips()
    for one in BUNDLED:
        forecast.press(replace(job(one), name=one.name + SUFFIX, precision="int8"))
    given = {"checkpoint": AFTER, "clip": BEFORE, "config": str(CONFIG), "size": SIZE, "licence": LICENCE}
    detect.press(detect.DetectJob(**given, name=CLIP + SUFFIX, precision="int8"))  # type: ignore[arg-type]


def speeds() -> list[Speed]:
    """Every graph at every number of rows."""
    found = []
    for name in FORECASTERS:
        found += [_speed(name, "model.onnx", rows, _windows(rows)) for rows in ROWS]
    found.append(_speed(CLIP, "vision.onnx", 1, _pixels(CLIP)))
    return found


def _speed(name: str, file: str, rows: int, tensors: Tensors) -> Speed:
    graphs = [open_artifact(one).file(file) for one in (name, name + SUFFIX)]
    runtimes = [OnnxRuntime(graph, RuntimeOptions(threads=1)) for graph in graphs]
    feeds = [{one: tensors[one] for one in runtime.inputs} for runtime in runtimes]
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for runtime, feed, times in zip(runtimes, feeds, taken, strict=True):
            times.append(cpu_ms_per_row(runtime.run, feed, rows, CPU_SECONDS))
    sizes = [graph.stat().st_size for graph in graphs]
    return Speed(f"{name}, {file}", *sizes, rows, median(taken[0]), median(taken[1]))


def _windows(rows: int) -> Tensors:
    """Seeded windows in scaled units, with calendar marks."""
    random = np.random.default_rng(0)
    marks = random.uniform(-0.5, 0.5, (rows, 96, 4)).astype(np.float32)
    return {"x_enc": random.standard_normal((rows, 96, 7)).astype(np.float32), "x_mark_enc": marks}


def _pixels(name: str) -> Tensors:
    """One seeded picture at the artifact's own size, with the tables of its grid."""
    from export.detect_engine import open_engine
    from models.clipself.pipeline.spec import DetectSpec

    artifact = open_artifact(name)
    spec = DetectSpec.from_settings(artifact.manifest.settings)
    cells = spec.size // spec.patch_size
    pixels = np.random.default_rng(0).standard_normal((1, 3, spec.size, spec.size)).astype(np.float32)
    return {"pixels": pixels, **open_engine(artifact.path, spec).graphs.tables.of((cells, cells))}


def costs() -> list[list[str]]:
    """Cells under COST_HEADINGS: test errors measured at export, boxes through the server."""
    cells = []
    for name in FORECASTERS:
        measured = {one.name: one.value for one in _artifact(name).manifest.metrics if one.origin == "measured"}
        for figure in ("mse", "mae"):
            fp32, int8 = measured[f"{figure}_fp32"], measured[figure]
            cells.append([name, f"{figure.upper()}, ETTh1 test", f"{fp32:.5f}", f"{int8:.5f}", f"{int8 - fp32:+.5f}"])
    with gateway({"PRESSROOM_MODELS": f"{CLIP},{CLIP}{SUFFIX}"}) as running, Client(running.url, timeout=120) as client:
        fp32_boxes, int8_boxes = (box_accuracy(client, one, one) for one in (CLIP, CLIP + SUFFIX))
    for title, one, other in (
        ("boxes right, bundled scenes", fp32_boxes.boxes, int8_boxes.boxes),
        ("among five", fp32_boxes.top5, int8_boxes.top5),
    ):
        cells.append([CLIP, title, f"{one:.1%}", f"{other:.1%}", f"{100 * (other - one):+.1f} points"])
    return cells


def certificates() -> list[list[str]]:
    """Cells under MATES_HEADINGS, from the certificates."""
    cells = []
    for name in FORECASTERS:
        found = _artifact(name).read_json("parity.json")
        tolerance = found["tolerance"]
        bound = f"{tolerance['atol']:g} + {tolerance['rtol']:g} x value"
        cells.append([name, f"{found['max_abs']:.3f}", bound, f"{found['int8']['mates']:.3f}"])
    return cells


def _artifact(name: str) -> Artifact:
    return open_artifact(name + SUFFIX)


def section() -> str:
    """The measured part of docs/export.md."""
    press_pairs()
    return "\n\n".join(
        (
            table(SPEED_HEADINGS, [one.cells() for one in speeds()]),
            table(COST_HEADINGS, costs()),
            "In training standard deviations:",
            table(MATES_HEADINGS, certificates()),
        )
    )
