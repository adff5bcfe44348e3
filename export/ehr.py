"""Press a MOTOR network: official folder -> verified artifact in the model store.

read -> build -> convert -> certify (parity and prefix invariance) -> describe -> store
Nothing is stored unless every step succeeded. The dictionary and the ontology travel inside; adapters do not
(`export.ehr_adapter`): they come later and attach by digest.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from export.artifact import EXAMPLE, PARITY, Metric, Runtime, sha256_file
from export.ehr_cases import EhrCase, make_request, plan_cases
from export.ehr_example import make_example
from export.ehr_graph import Answering, convert
from export.ehr_manifest import EhrFacts, hyper_parameters
from export.ehr_parity import (
    CASES_FILE,
    CASES_JSON,
    HEAD_FILE,
    Checked,
    EhrResult,
    GraphRunner,
    Head,
    Made,
    case_positions,
    certificate,
    check_case,
    prefix_invariance,
    require,
    whole,
)
from export.ehr_source import DICTIONARY, ONTOLOGY, EhrSource, dump_ontology, read_source
from export.errors import CheckpointFileError, ConversionError, DataError, HyperParameterError
from export.onnx_graph import OPSET
from export.progress import Report, silent
from export.runner import GRAPH_FILE, one_thread
from export.store import Stored, check_tag, file_entries, store
from models.errors import InputError
from models.motor.checkpoint import translate
from models.motor.inputs import to_tensors
from models.motor.network import Motor, build
from models.motor.record import Reading
from models.motor.spec import EhrSpec, make_spec
from models.motor.vocabulary import DictionaryError, Ontology, Position, Vocabulary
from models.statedict import CheckpointError

TASKS_FILE = "tasks.json"
LICENCE = "Apache-2.0 (code); weights: as their publisher says"
EXAMPLE_EVENTS = 24
_STEPS = ("read the checkpoint", "convert", "certify", "store")


@dataclass(frozen=True, kw_only=True)
class EhrJob:
    """Everything `pressroom export ehr` was told.

    ontology                  ontology.json or codes.parquet in place of the folder's own
    birth_codes, death_codes  codes of these events in the training data
    """

    folder: Path
    name: str
    version: str | None = None
    ontology: Path | None = None
    birth_codes: tuple[str, ...] = ("MEDS_BIRTH",)
    death_codes: tuple[str, ...] = ("MEDS_DEATH",)
    licence: str = LICENCE
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Network:
    """A folder brought to life."""

    source: EhrSource
    module: Motor
    spec: EhrSpec
    checked: Checked
    dropped: list[str]


@dataclass(frozen=True)
class Pressed:
    """A finished export."""

    stored: Stored
    certificate: dict[str, Any]
    backbone: str
    notes: list[str]


def press(job: EhrJob, report: Report = silent) -> Pressed:
    """Press one network. Raises ExportError with the reason and the way out; then nothing was stored."""
    check_tag(job.name, job.version)
    report(_STEPS[0], 0, len(_STEPS))
    network = load_network(job)
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        files = Path(scratch)
        report(_STEPS[1], 1, len(_STEPS))
        write_parts(network, files)
        report(_STEPS[2], 2, len(_STEPS))
        found = certify(network, job.name, files)
        report(_STEPS[3], 3, len(_STEPS))
        notes = [] if network.source.parents else ["no ontology: a code stands for itself only"]
        facts = EhrFacts(
            config=network.module.config,
            hyper_parameters=hyper_parameters(network.module.config),
            spec=network.spec,
            source=network.source.source.model_copy(update={"dropped": network.dropped, "notes": notes}),
            licence=job.licence,
            runtime=Runtime(kind="onnx", file=GRAPH_FILE, opset=OPSET),
            files=file_entries(files),
            metrics=list(job.metrics),
        )
        stored = store(
            partial(facts.manifest, job.name), files, name=job.name, version=job.version, verdict=found["verdict"]
        )
    report(_STEPS[3], len(_STEPS), len(_STEPS))
    return Pressed(stored, found, network.spec.backbone, notes)


def load_network(job: EhrJob) -> Network:
    """Folder, dictionary and ontology joined into a network with the official weights in it."""
    source = read_source(job.folder, job.ontology)
    if source.config.time_channels > 1:
        raise ConversionError(
            "use_normed_ages: a v2 network with time channels cannot be pressed",
            "how femr >= 0.2.4 standardises them is not part of its files; press one trained without use_normed_ages",
        )
    module, dropped = _build(source)
    vocabulary = _vocabulary(source)
    spec = make_spec(
        source.config,
        backbone=source.backbone,
        dictionary="sha256:" + sha256_file(source.folder / DICTIONARY),
        hierarchical=vocabulary.hierarchical,
        birth_codes=job.birth_codes,
        death_codes=job.death_codes,
    )
    reading = Reading(
        vocabulary=vocabulary,
        birth_codes=spec.birth_codes,
        death_codes=spec.death_codes,
        reach=spec.reach,
        limit=spec.limit,
    )
    checked = Checked(reading=reading, whole=whole(reading), spec=spec, head=_head(module))
    return Network(source=source, module=module, spec=spec, checked=checked, dropped=dropped)


def write_parts(network: Network, files: Path) -> None:
    """Graph, pretraining head, dictionary, ontology and the tasks' codes."""
    convert(network.module, files / GRAPH_FILE)
    head = network.checked.head
    save_file({"weight": head.weight.astype(np.float32), "bias": head.bias.astype(np.float32)}, files / HEAD_FILE)
    shutil.copyfile(network.source.folder / DICTIONARY, files / DICTIONARY)
    (files / ONTOLOGY).write_bytes(dump_ontology(network.source.parents))
    (files / TASKS_FILE).write_text(json.dumps(network.module.config.tasks, ensure_ascii=False) + "\n")


def certify(network: Network, name: str, files: Path) -> dict[str, Any]:
    """Make the certificate, its cases and the example, or raise ParityError."""
    run, checked = GraphRunner(files / GRAPH_FILE), network.checked
    vocabulary = checked.reading.vocabulary
    try:
        cases = plan_cases(vocabulary, network.spec, network.module.config.window)
        results = [check_case(case, _reference(network, case), run, checked) for case in cases]
    except (InputError, ValueError) as fault:
        raise DataError(f"no record can be made of this dictionary: {fault}", "it needs codes besides birth") from None
    require(results)
    found = certificate(results, prefix_invariance(cases, run, checked), OPSET)
    _save_cases(results, files)
    (files / PARITY).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    request = make_request(vocabulary, network.spec, EXAMPLE_EVENTS)
    example = make_example(name, request, run, checked, network.module.config.tasks)
    (files / EXAMPLE).write_text(json.dumps(example, ensure_ascii=False) + "\n", encoding="utf-8")
    return found


def _reference(network: Network, case: EhrCase) -> Made:
    """What the official weights say in torch: every patient alone, unpadded, its whole history."""
    made = [_eager(network, positions) for positions in case_positions(case, network.checked.whole)]
    return {name: np.concatenate([one[name] for one in made]) for name in made[0]}


def _eager(network: Network, positions: list[Position]) -> Made:
    tensors = to_tensors(positions, aged=network.spec.aged)
    answering = Answering(network.module)
    with one_thread(), torch.inference_mode():
        representation, _ = answering(*(torch.from_numpy(part) for part in tensors.values()))
        hazards = network.module.head(representation).transpose(1, 2)
    return {"representation": representation.numpy(), "log2_hazard": hazards.numpy()}


def _save_cases(results: list[EhrResult], files: Path) -> None:
    """Requests and reference outputs, so that the comparison can be repeated without torch."""
    arrays = {f"{r.case.name}/{name}": np.ascontiguousarray(a) for r in results for name, a in r.reference.items()}
    save_file(arrays, files / CASES_FILE)
    requests = {r.case.name: r.case.request for r in results if r.case.request is not None}
    (files / CASES_JSON).write_text(json.dumps(requests, ensure_ascii=False) + "\n", encoding="utf-8")


def _build(source: EhrSource) -> tuple[Motor, list[str]]:
    try:
        translation = translate(source.state, source.config)
    except CheckpointError as fault:
        shown = "; ".join(fault.problems[:5]) + (" ..." if len(fault.problems) > 5 else "")
        raise CheckpointFileError(f"{source.folder.name}: {shown}", fault.hint) from None
    module = build(source.config)
    module.load_state_dict(translation.state, strict=True)
    return module, translation.dropped


def _vocabulary(source: EhrSource) -> Vocabulary:
    try:
        vocabulary = Vocabulary(source.dictionary, Ontology(source.parents))
    except (DictionaryError, KeyError, TypeError, ValueError) as fault:
        raise CheckpointFileError(f"{DICTIONARY}: {fault}", "expected femr's dictionary of this layout") from None
    if vocabulary.size > source.config.vocab_size:
        raise HyperParameterError(
            f"vocab_size: {DICTIONARY} has {vocabulary.size} entries, the network {source.config.vocab_size}",
            "these two are not of one training run",
        )
    return vocabulary


def _head(module: Motor) -> Head:
    head, bins = module.head, module.config.bins
    bias = head.task.bias.numpy()[:, None].repeat(bins, axis=1)
    if hasattr(head, "time_bias"):
        bias = bias + head.time_bias.numpy()[0].T
    return Head(weight=head.task.weight.numpy().astype(np.float64), bias=bias.astype(np.float64))
