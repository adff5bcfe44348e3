"""Ten tasks' adapters of a pretrained network: labels, fit, and the files a service attaches."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from export.ehr_source import read_source
from models.motor.network import Motor
from models.motor.task_file import TaskFile, TaskMetric
from models.motor.vocabulary import Ontology, Vocabulary
from recipes.common import progress
from recipes.motor.features import Floats, binned_features
from recipes.motor.labels import Question, labels, questions
from recipes.motor.prepare import Prepared
from recipes.motor.probes import Probe, Split, fit_probe
from recipes.motor.records import Record
from recipes.motor.settings import Settings

_CALIBRATION = "Probabilities fit the training records only; check them against outcomes of your own before use."


def write_adapters(folder: Path, network: Motor, prepared: Prepared, settings: Settings) -> list[Path]:
    """Fit every task of the settings on the training split and write `TASK.adapter.json` beside the network.

    folder: the checkpoint, already written; its digest is what the adapters attach to.
    """
    probes = fit_all(network, prepared, settings)
    backbone = read_source(folder).backbone
    written = []
    for task, probe in probes.items():
        path = folder / f"{task}.adapter.json"
        path.write_bytes(_file(task, probe, backbone, network.config.time_bins, settings).dump())
        written.append(path)
    return written


def fit_all(network: Motor, prepared: Prepared, settings: Settings) -> dict[str, Probe]:
    """Task -> probe; the penalty is chosen on the tuning split."""
    ontology = Ontology(prepared.parents)
    vocabulary = Vocabulary(prepared.dictionary, ontology)
    starts = np.array(network.config.time_bins)
    asked = [
        questions(records, settings.adapters, settings.training.seed) for records in (prepared.train, prepared.tuning)
    ]
    features = [
        binned_features(network, vocabulary, records, own)
        for records, own in zip((prepared.train, prepared.tuning), asked, strict=True)
    ]
    found = {}
    with progress("adapters", len(settings.adapters.tasks)) as tell:
        for done, (task, code) in enumerate(settings.adapters.tasks.items(), 1):
            train = _split(prepared.train, asked[0], features[0], code, ontology)
            tuning = _split(prepared.tuning, asked[1], features[1], code, ontology)
            found[task] = fit_probe(train, tuning, starts)
            tell(done, f"{task}: tuning C {found[task].tuning_c:.3f}")
    return found


def _split(records: list[Record], asked: list[Question], features: Floats, code: str, ontology: Ontology) -> Split:
    return Split(features, labels(records, asked, code, ontology))


def _file(task: str, probe: Probe, backbone: str, starts: tuple[float, ...], settings: Settings) -> TaskFile:
    code = settings.adapters.tasks[task]
    metric = TaskMetric(name="time-dependent C", value=probe.tuning_c, data=settings.name, split="tuning")
    return TaskFile(
        task=task,
        version="1",
        backbone=backbone,
        time_bins=starts,
        vector=tuple(probe.vector.tolist()),
        outcome=f"first {task.replace('_', ' ')} ({code} or a code below it)",
        codes=(code,),
        l2=probe.l2,
        calibration=_CALIBRATION,
        metrics=(metric,),
    )
