"""Press any ONNX graph: a file -> verified artifact in the model store, served as tensors.

read and check -> compare (`export.onnx_parity`) -> describe -> store
Nothing is done before or after the graph: what it takes is what clients send, what it gives is what they get.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import save_file

from export.artifact import (
    EXAMPLE,
    PARITY,
    FileEntry,
    Manifest,
    Official,
    Paper,
    Runtime,
    Signature,
    Source,
    TensorSpec,
    sha256_file,
)
from export.onnx_cases import Arrays, arrays_of, plan_cases, read_sample
from export.onnx_file import BATCH, Declared, OnnxFile, read_graph
from export.onnx_parity import (
    CASES_FILE,
    OnnxResult,
    certificate,
    check_case,
    reference,
    require,
    served,
    session,
    tolerance_of,
)
from export.progress import Report, silent
from export.runner import GRAPH_FILE
from export.store import Stored, check_tag, file_entries, store

FAMILY, ARCHITECTURE = "onnx", "graph"
LICENCE = "as the graph's owner says"
_STEPS = ("read the graph", "certify", "store")


@dataclass(frozen=True, kw_only=True)
class OnnxJob:
    """Everything `pressroom export onnx` was told.

    free_batch  see `export.onnx_file.read_graph`
    example     .npz file with rows of every input, to try the graph on
    reference   what the served session is compared with; "runtime": never with onnx's evaluator
    """

    file: Path
    name: str
    version: str | None = None
    free_batch: bool = False
    example: Path | None = None
    reference: Literal["evaluator", "runtime"] = "evaluator"
    licence: str = LICENCE


@dataclass(frozen=True)
class Pressed:
    """A finished export."""

    stored: Stored
    certificate: dict[str, Any]
    signature: Signature


def press(job: OnnxJob, report: Report = silent) -> Pressed:
    """Press one graph. Raises ExportError with the reason and the way out; then nothing was stored."""
    check_tag(job.name, job.version)
    report(_STEPS[0], 0, len(_STEPS))
    graph = read_graph(job.file, free_batch=job.free_batch)
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        files = Path(scratch)
        (files / GRAPH_FILE).write_bytes(graph.model.SerializeToString(deterministic=True))
        report(_STEPS[1], 1, len(_STEPS))
        results, found = _certify(job, graph, files)
        _write_records(job.name, results, found, files)
        report(_STEPS[2], 2, len(_STEPS))
        signature = _signature(graph, results)
        make = partial(_manifest, job, graph, signature, file_entries(files))
        stored = store(make, files, name=job.name, version=job.version, verdict=found["verdict"])
    report(_STEPS[2], len(_STEPS), len(_STEPS))
    return Pressed(stored, found, signature)


def _certify(job: OnnxJob, graph: OnnxFile, files: Path) -> tuple[list[OnnxResult], dict[str, Any]]:
    """Every case with its verdict, and the certificate. Raises ParityError."""
    sample = None if job.example is None else read_sample(job.example, graph.inputs)
    cases = plan_cases(graph.inputs, sample)
    run = session(files / GRAPH_FILE)
    served(cases[0], run)  # whether it runs at all, before it is compared
    evaluator = job.reference == "evaluator"
    against, expected = reference(graph.model, files / GRAPH_FILE, cases[0], evaluator=evaluator)
    results = [check_case(case, expected(case.inputs), run) for case in cases]
    require(results, against)
    return results, certificate(results, against, graph.opset)


def _write_records(name: str, results: Sequence[OnnxResult], found: dict[str, Any], files: Path) -> None:
    """Certificate, cases and example."""
    (files / PARITY).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    save_file(arrays_of([(result.case, result.reference) for result in results]), files / CASES_FILE)
    first, tolerance = results[0], tolerance_of(results)
    magnitude = max(float(np.abs(v.astype(np.float64)).max(initial=1.0)) for v in first.reference.values())
    example = {
        "request": {"model": name, "inputs": _lists(first.case.inputs)},
        "response": {"outputs": _lists(first.reference)},
        "tolerance": asdict(tolerance) | {"atol": tolerance.atol * magnitude},
    }
    (files / EXAMPLE).write_text(json.dumps(example) + "\n", encoding="utf-8")


def _lists(arrays: Arrays) -> dict[str, Any]:
    return {name: values.tolist() for name, values in arrays.items()}


def _signature(graph: OnnxFile, results: Sequence[OnnxResult]) -> Signature:
    inputs = [_spec(one, [-1 if size is None else size for size in one.shape[1:]]) for one in graph.inputs]
    free = any(not isinstance(size, int) for spec in inputs for size in spec.shape[1:])
    seen = results[0].reference
    outputs = [_spec(one, _sizes(one, seen[one.name].shape, free=free)) for one in graph.outputs]
    return Signature(inputs=inputs, outputs=outputs)


def _sizes(one: Declared, seen: tuple[int, ...], *, free: bool) -> list[int | str]:
    """An output's sizes after the batch: declared names, else what was seen, -1 where an input's free axis decides."""
    pairs = zip(one.shape[1:], seen[1:], strict=True)
    return [size if isinstance(size, str) else (-1 if size is None and free else found) for size, found in pairs]


def _spec(one: Declared, rest: Sequence[int | str]) -> TensorSpec:
    return TensorSpec(
        name=one.name, dtype=one.datatype, shape=[BATCH, *rest], unit="the graph's own", meaning="as the graph has it"
    )


def _manifest(
    job: OnnxJob, graph: OnnxFile, signature: Signature, files: dict[str, FileEntry], version: str
) -> Manifest:
    tensors = ", ".join(one.name for one in signature.inputs)
    return Manifest(
        name=job.name,
        version=version,
        family=FAMILY,
        architecture=ARCHITECTURE,
        paper=Paper(title="not stated", venue="not stated", url=""),
        official=Official(repository="not stated", commit="not stated", licence=job.licence),
        source=Source(file=job.file.name, format="onnx", sha256=sha256_file(job.file), tensors=graph.tensors),
        hyper_parameters={},
        signature=signature,
        request=f"tensors {tensors}, as many rows of each",
        pipeline=["the graph; nothing is done before it or after it"],
        settings={},
        runtime=Runtime(kind="onnx", file=GRAPH_FILE, opset=graph.opset),
        files=files,
    )
