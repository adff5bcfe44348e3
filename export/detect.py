"""Press an image-text tower or detector: official checkpoint -> verified artifact in the model store.

open -> write the graphs -> certify -> example -> describe -> store
Nothing is stored unless every step succeeded.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from export import detect_int8, int8
from export import detect_parity as parity
from export.artifact import EXAMPLE, PARITY, Metric
from export.detect_engine import open_engine
from export.detect_example import SCORES, make_example
from export.detect_files import make_spec, write_files
from export.detect_manifest import DetectFacts
from export.detect_pipeline import DetectPipeline
from export.detect_reference import reference
from export.detect_served import check_served
from export.detect_source import DetectJob, Opened, open_job
from export.errors import OptionError, ParityError
from export.onnx_graph import OPSET
from export.parity import Tolerance
from export.progress import Report, silent
from export.store import Stored, check_tag, file_entries, store
from models.clipself.pipeline.spec import DetectSpec

__all__ = ["DetectJob", "Pressed", "press"]
_STEPS = ("open the checkpoint", "write the graphs", "certify", "store")


@dataclass(frozen=True)
class Pressed:
    """A finished export: where it is stored, its certificate, the licence it is under, notes, figures of int8."""

    stored: Stored
    certificate: dict[str, Any]
    licence: str
    notes: list[str]
    metrics: list[Metric]


def press(job: DetectJob, report: Report = silent) -> Pressed:
    """Press one checkpoint. Raises ExportError with the reason and the way out; then nothing was stored."""
    check_tag(job.name, job.version)
    report(_STEPS[0], 0, len(_STEPS))
    opened = open_job(job)
    if job.precision == int8.PRECISION:
        detect_int8.check_kind(opened.fvit is not None)
    spec = make_spec(job, opened)
    if not spec.context_length and not spec.vocabulary:
        raise OptionError(
            f"{job.checkpoint.name} has neither a text tower nor label embeddings: it could name nothing",
            "name the CLIP model it began with (--clip FILE), or label embeddings (--embeddings FILE)",
        )
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        files = Path(scratch)
        report(_STEPS[1], 1, len(_STEPS))
        write_files(opened, files)
        report(_STEPS[2], 2, len(_STEPS))
        certificate = certify(opened, spec, job.name, files)
        metrics: list[Metric] = []
        if job.precision == int8.PRECISION:
            certificate, metrics = _quantise(opened, spec, job.name, files)
        report(_STEPS[3], 3, len(_STEPS))
        facts = DetectFacts(
            kind=opened.kind,
            licence=job.licence,
            source=opened.source,
            config=opened.official,
            origin=Path(job.config).name,
            spec=spec,
            files=file_entries(files),
            precision=job.precision,
            metrics=metrics,
        )
        manifest_for = partial(facts.manifest, job.name)
        stored = store(manifest_for, files, name=job.name, version=job.version, verdict=certificate["verdict"])
    report(_STEPS[3], len(_STEPS), len(_STEPS))
    licence = manifest_for(stored.version).official.licence
    return Pressed(stored, certificate, licence, opened.source.notes, metrics)


def _quantise(opened: Opened, spec: DetectSpec, name: str, files: Path) -> tuple[dict[str, Any], list[Metric]]:
    """Turn certified graphs into int8: a certificate of their own, and what it costs. Raises ParityError."""
    fp32 = open_engine(files, spec).graphs
    made = detect_int8.quantise_graphs(files)
    try:
        certificate = certify(opened, spec, name, files, detect_int8.TOLERANCE, detect_int8.SCORES)
    except ParityError as breach:
        raise int8.refused(breach.message) from None
    certificate["runtime"] += ", int8"
    certificate["int8"] = made
    _write_json(files / PARITY, certificate)
    return certificate, detect_int8.cosines(spec, fp32, open_engine(files, spec).graphs)


def certify(
    opened: Opened,
    spec: DetectSpec,
    name: str,
    files: Path,
    tolerance: Tolerance = parity.TOLERANCE,
    scores: float = SCORES,
) -> dict[str, Any]:
    """Make the parity certificate and the example, or raise ParityError."""
    pipeline = DetectPipeline(files, spec)
    graphs = open_engine(files, spec).graphs
    references: dict[str, Any] = {}
    results = []
    for case in parity.plan(spec, graphs):
        expected = reference(case, opened, spec)
        got = parity.outputs(case, spec, graphs)
        results += [parity.compare(key, got[key], expected[key], tolerance) for key in expected]
        references |= expected
    results += check_served(opened, pipeline, tolerance)
    parity.require(results, tolerance)
    certificate = parity.certificate(results, OPSET, tolerance)
    parity.save_references(references, files / parity.CASES_FILE)
    _write_json(files / PARITY, certificate)
    _write_json(files / EXAMPLE, make_example(name, pipeline, scores))
    return certificate


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
