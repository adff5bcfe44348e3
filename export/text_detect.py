"""Press a detector: a language model's artifact and how to ask it -> verified artifact in the store.

What the serving engine says comes in as data (`Served`): the exporter checks it against the graph run alone.
Nothing is stored unless the certificate holds; no torch, no network.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from export.artifact import EXAMPLE, PARITY, Artifact, open_artifact
from export.errors import OptionError
from export.llm_manifest import FAMILY as LLM
from export.llm_tokens import TOKENIZER
from export.store import Stored, check_tag, file_entries, store
from export.text_detect_cases import EXAMPLE_TEXT, TEXTS
from export.text_detect_manifest import DetectorFacts
from export.text_detect_parity import Finding, Reference, certificate, check, tolerance
from models.dna_gpt.detector import DetectorSpec, Generator
from models.dna_gpt.parts import Parts
from models.dna_gpt.reading import Reading, Regeneration
from models.llm.spec import LanguageModelSpec

EXAMPLE_REQUEST = {"text": TEXTS[EXAMPLE_TEXT], "regenerations": 0}
CASE_REGENERATIONS = 2
_RTOL = 0.05  # of the example, on other CPUs


@dataclass(frozen=True, kw_only=True)
class DetectorJob:
    """Everything `pressroom export text-detect` was told.

    generator  name[:version] of a language model's artifact in the store
    settings   of DetectorSpec, other than generator and thresholds; what is missing has its default
    """

    generator: str
    name: str
    version: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Served:
    """What the serving engine says: readings of the certificate's texts by name, and the answer to EXAMPLE_REQUEST."""

    readings: Mapping[str, Reading]
    example: dict[str, Any]


@dataclass(frozen=True)
class Pressed:
    """A finished export."""

    stored: Stored
    certificate: dict[str, Any]
    spec: DetectorSpec


def plan(job: DetectorJob) -> DetectorSpec:
    """The detector that will be pressed. Raises OptionError, ArtifactError."""
    check_tag(job.name, job.version)
    artifact = open_language_model(job.generator)
    manifest = artifact.manifest
    generator = Generator(
        name=manifest.name,
        version=manifest.version,
        digest=artifact.digest,
        tokenizer_digest=f"sha256:{manifest.files[TOKENIZER].sha256}",
    )
    try:
        return DetectorSpec(generator=generator, **job.settings)
    except ValueError as fault:
        option, _, told = str(fault).partition(": ")
        raise OptionError(f"--{option.replace('_', '-')}: {told}", "`pressroom export text-detect --help`") from None


def press(job: DetectorJob, spec: DetectorSpec, served: Served) -> Pressed:
    """Certify and store. Raises ExportError; then nothing was stored."""
    generator = open_language_model(f"{spec.generator.name}:{spec.generator.version}")
    language = LanguageModelSpec.from_settings(generator.manifest.settings)
    reference = Reference(generator, language)
    proof = certificate([check(name, one, reference) for name, one in served.readings.items()], language)
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        files = Path(scratch)
        write_json(files / PARITY, proof)
        write_example(files, served.example, tolerance(language))
        facts = DetectorFacts(spec=spec, generator=generator, files=file_entries(files))
        manifest_for = partial(facts.manifest, job.name)
        stored = store(manifest_for, files, name=job.name, version=job.version, verdict=proof["verdict"])
    return Pressed(stored, proof, spec)


def recheck(artifact: Artifact) -> list[Finding]:
    """The certificate's texts by the generator's graph again, against what the engine said when it was pressed."""
    spec = DetectorSpec.from_settings(artifact.manifest.settings)
    generator = open_language_model(f"{spec.generator.name}:{spec.generator.version}")
    reference = Reference(generator, LanguageModelSpec.from_settings(generator.manifest.settings))
    return [_again(case, reference) for case in artifact.read_json(PARITY)["cases"]]


def open_language_model(tag: str) -> Artifact:
    """A language model of the store. Raises ArtifactError, or OptionError where it is none."""
    name, _, version = tag.partition(":")
    artifact = open_artifact(name, version or None)
    if artifact.manifest.family != LLM:
        told = f"--generator {artifact.tag} is of family {artifact.manifest.family!r}"
        raise OptionError(told, "name a language model; `pressroom models` lists them")
    return artifact


def write_example(files: Path, answer: dict[str, Any], atol: float) -> None:
    """`example.json`: the request that warms a server up, and its answer here."""
    bounds = {"atol": atol, "rtol": _RTOL}
    write_json(files / EXAMPLE, {"request": EXAMPLE_REQUEST, "response": answer, "tolerance": bounds})


def write_json(path: Path, document: dict[str, Any]) -> None:
    """As people would read it."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _again(case: dict[str, Any], reference: Reference) -> Finding:
    """One recorded case; overlaps need the texts of its regenerations, which the certificate does not keep."""
    tokens, given = tuple(case["tokens"]), int(case["given"])
    parts = Parts("", 0, tokens, given, (0,) * len(tokens))
    found = tuple(Regeneration("", tuple(one)) for one in case["regenerations"])
    kept = {name: value for name, value in reference.scores(parts, found).items() if name in _LIKELIHOODS}
    served = {name: case["served"][name] for name in kept}
    return Finding(case["name"], tokens, given, tuple(one.tokens for one in found), served, kept)


_LIKELIHOODS = ("w_score", "curvature", "mean_log_prob")
