"""Thresholds for a detector, from scores of texts whose authors are known: a new version of its artifact.

Every statistic of the mode gets one, from the same texts. The curve and all scores lie in `calibration.json`, so that
another rate can be chosen without asking again; texts do not.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from export.artifact import EXAMPLE, PARITY, Artifact
from export.errors import OptionError
from export.store import Stored, file_entries, store
from export.text_detect import open_language_model, write_json
from export.text_detect_manifest import DetectorFacts
from models.dna_gpt.calibration import Calibration, CalibrationError, calibrate
from models.dna_gpt.detector import STATISTICS, DetectorSpec, Mode, Threshold
from models.dna_gpt.traits import Coverage, Traits

CALIBRATION = "calibration.json"


@dataclass(frozen=True)
class Scored:
    """One text of known origin: what it is like, and its scores by statistic."""

    traits: Traits
    scores: dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Texts of one origin. file, sha256: where they are from; skipped: texts nothing can be said about, by verdict."""

    file: str
    sha256: str
    scored: tuple[Scored, ...]
    skipped: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class CalibrationJob:
    """Everything `pressroom calibrate text-detect` was told. upstream: the endpoint's model, "" for white box."""

    rate: float
    mode: Mode
    upstream: str
    regenerations: int
    human: Corpus
    machine: Corpus


@dataclass(frozen=True)
class Calibrated:
    """Thresholds by statistic, and the curves and scores they come from."""

    thresholds: tuple[Threshold, ...]
    document: dict[str, Any]


def measure(job: CalibrationJob) -> Calibrated:
    """Raises OptionError where there are too few texts for the rate."""
    found = {name: _calibrated(job, name) for name in STATISTICS[job.mode]}
    thresholds = tuple(_threshold(job, name, one) for name, one in found.items())
    curves = {name: [asdict(point) for point in one.curve] for name, one in found.items()}
    document = {
        "mode": job.mode,
        "upstream": job.upstream,
        "regenerations": job.regenerations,
        "texts": {"human": _described(job.human), "machine": _described(job.machine)},
        "thresholds": [asdict(one) for one in thresholds],
        "curves": curves,
    }
    return Calibrated(thresholds, document)


def store_calibrated(
    artifact: Artifact, spec: DetectorSpec, documents: Sequence[dict[str, Any]], example: Any
) -> Stored:
    """The next version of a detector, with these thresholds. example: its answer to the example's request now."""
    generator = open_language_model(f"{spec.generator.name}:{spec.generator.version}")
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        files = Path(scratch)
        shutil.copyfile(artifact.file(PARITY), files / PARITY)
        write_json(files / EXAMPLE, {**artifact.read_json(EXAMPLE), "response": example})
        write_json(files / CALIBRATION, {"calibrations": list(documents)})
        facts = DetectorFacts(spec=spec, generator=generator, files=file_entries(files))
        name, verdict = artifact.manifest.name, artifact.read_json(PARITY)["verdict"]
        return store(partial(facts.manifest, name), files, name=name, version=None, verdict=verdict)


def earlier(artifact: Artifact, mode: Mode, upstream: str) -> list[dict[str, Any]]:
    """Calibrations the artifact has for other modes and endpoints, which stay."""
    if CALIBRATION not in artifact.manifest.files:
        return []
    every = artifact.read_json(CALIBRATION)["calibrations"]
    return [one for one in every if (one["mode"], one["upstream"]) != (mode, upstream)]


def _calibrated(job: CalibrationJob, statistic: str) -> Calibration:
    human, machine = (_scores(corpus, statistic) for corpus in (job.human, job.machine))
    try:
        return calibrate(human, machine, job.rate)
    except CalibrationError as fault:
        option = "--fpr" if fault.field == "rate" else f"--{fault.field}"
        skipped = {**job.human.skipped, **job.machine.skipped}
        hint = "give more texts, or a larger --fpr" + (f"; not used: {skipped}" if skipped else "")
        raise OptionError(f"{option}: {fault.message}", hint) from None


def _threshold(job: CalibrationJob, statistic: str, found: Calibration) -> Threshold:
    facts: dict[str, Any] = {
        "mode": job.mode,
        "statistic": statistic,
        "upstream": job.upstream,
        "regenerations": job.regenerations,
        "threshold": found.threshold,
        "human_threshold": found.human_threshold,
        "declared_rate": found.declared_rate,
        "confidence": found.confidence,
        "humans": found.humans,
        "machines": found.machines,
        "false_positives": asdict(found.false_positives),
        "true_positives": asdict(found.true_positives),
        "area": asdict(found.area),
        "coverage": asdict(Coverage.of(one.traits for one in job.human.scored)),  # the rate is of texts like these
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return Threshold.from_settings({**facts, "id": f"{statistic}-{digest[:12]}"})


def _scores(corpus: Corpus, statistic: str) -> list[float]:
    return [score for one in corpus.scored if (score := one.scores[statistic]) is not None]


def _described(corpus: Corpus) -> dict[str, Any]:
    scores = [{"words": one.traits.words, **one.scores} for one in corpus.scored]
    return {"file": corpus.file, "sha256": corpus.sha256, "skipped": corpus.skipped, "scores": scores}
