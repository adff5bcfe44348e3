"""Check a stored record model again: the certificate's raw cases and the prefix-invariance self-test, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from export.artifact import Artifact
from export.ehr_cases import EhrCase
from export.ehr_parity import (
    CASES_FILE,
    CASES_JSON,
    HEAD_FILE,
    OUTPUTS,
    Checked,
    EhrResult,
    GraphRunner,
    Head,
    check_case,
    prefix_invariance,
    whole,
)
from export.ehr_source import DICTIONARY, ONTOLOGY, read_dictionary
from models.motor.record import Reading
from models.motor.spec import EhrSpec
from models.motor.vocabulary import Ontology, Vocabulary


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a check found."""

    spec: EhrSpec
    results: list[EhrResult]
    invariant: dict[str, Any]

    @property
    def holds(self) -> bool:
        return all(r.graph.holds and (r.pipeline is None or r.pipeline.holds) for r in self.results)


def open_checked(artifact: Artifact) -> Checked:
    """What cases are run with, from a stored artifact's own files."""
    spec = EhrSpec.from_settings(artifact.manifest.settings)
    vocabulary = Vocabulary(read_dictionary(artifact.file(DICTIONARY)), Ontology(artifact.read_json(ONTOLOGY)))
    reading = Reading(
        vocabulary=vocabulary,
        birth_codes=spec.birth_codes,
        death_codes=spec.death_codes,
        reach=spec.reach,
        limit=spec.limit,
    )
    head = load_file(artifact.file(HEAD_FILE))
    made = Head(weight=head["weight"].astype(np.float64), bias=head["bias"].astype(np.float64))
    return Checked(reading=reading, whole=whole(reading), spec=spec, head=made)


def recheck(artifact: Artifact) -> Found:
    """Repeat every recorded raw case. Raises ParityError if the future matters."""
    checked, run = open_checked(artifact), GraphRunner(artifact.file(artifact.manifest.runtime.file))
    arrays, requests = load_file(artifact.file(CASES_FILE)), artifact.read_json(CASES_JSON)
    cases = [EhrCase(name=name, request=request) for name, request in requests.items()]
    results = [
        check_case(case, {output: arrays[f"{case.name}/{output}"] for output in OUTPUTS}, run, checked)
        for case in cases
    ]
    return Found(spec=checked.spec, results=results, invariant=prefix_invariance(cases, run, checked))
