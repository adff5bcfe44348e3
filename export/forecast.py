"""Press a forecaster: official checkpoint -> verified artifact in the model store.

read -> data and hyper-parameters -> translate -> convert -> certify -> evaluate -> describe -> store
Each step is a module of its own; this one only puts them in order. Nothing is stored unless every step succeeded.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import nn

from export import parity
from export.artifact import EXAMPLE, PARITY, FileEntry, Metric, Runtime
from export.checkpoints import Checkpoint, read_checkpoint
from export.errors import CheckpointFileError, DataError, OptionError
from export.evaluate import evaluate
from export.example import make_example
from export.forecast_backbone import open_backbone, refer, stated_by
from export.forecast_calibration import calibrate
from export.forecast_data import DataOptions, Prepared, make_spec, prepare
from export.forecast_manifest import ForecastFacts
from export.hyperparameters import HyperParameters, Stated, gather
from export.onnx_graph import OPSET, GraphShape, convert
from export.parity_cases import Case, WindowSource, plan_cases
from export.progress import Report, silent
from export.runner import GRAPH_FILE, WEIGHTS_FILE, Runner, module_runner, onnx_runner, torch_runner
from export.store import Stored, check_tag, file_entries, store
from models.errors import InputError
from models.forecasting.architecture import Architecture
from models.forecasting.registry import UnknownArchitectureError, architecture, detect
from models.forecasting.spec import ForecastSpec
from models.statedict import CheckpointError

RuntimeKind = Literal["onnx", "torch"]
_STEPS = ("read the checkpoint", "read the data", "convert", "certify", "store")


@dataclass(frozen=True, kw_only=True)
class ForecastJob:
    """Everything `pressroom export forecast` was told.

    backbone       LIFT: NAME[:VERSION] of the stored artifact it is put around
    calibration    csv the intervals are calibrated with, "none", or None: the training csv's rows before the test rows
    extra_metrics  figures from elsewhere (the paper, the training run) to record beside measured ones
    """

    architecture: str
    checkpoint: Path
    name: str
    version: str | None = None
    backbone: str | None = None
    stated: Stated = field(default_factory=Stated)
    data: DataOptions = field(default_factory=DataOptions)
    runtime: RuntimeKind = "onnx"
    evaluate: bool = False
    calibration: str | None = None
    extra_metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Network:
    """A checkpoint brought to life: our network with the official weights, and all that describes it."""

    record: Architecture
    checkpoint: Checkpoint
    hyper: HyperParameters
    prepared: Prepared
    spec: ForecastSpec
    module: nn.Module
    backbone: dict[str, Any] | None = None

    def facts(
        self, runtime: Runtime, files: dict[str, FileEntry], metrics: list[Metric], calibration: dict[str, Any]
    ) -> ForecastFacts:
        """What the manifest says once the weights are written."""
        return ForecastFacts(
            architecture=self.record,
            hyper=self.hyper,
            spec=self.spec,
            source=self.checkpoint.source,
            runtime=runtime,
            files=files,
            metrics=metrics,
            backbone=self.backbone,
            calibration=calibration,
        )


@dataclass(frozen=True)
class Pressed:
    """A finished export: where it is stored, its certificate and its metrics."""

    stored: Stored
    certificate: dict[str, Any]
    metrics: list[Metric]
    origins: dict[str, str]
    notes: list[str]


def press(job: ForecastJob, report: Report = silent) -> Pressed:
    """Press one checkpoint. Raises ExportError with the reason and the way out; then nothing was stored."""
    check_tag(job.name, job.version)
    network = load_network(job, report)
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        files = Path(scratch)
        report(_STEPS[2], 2, len(_STEPS))
        runtime, run = write_weights(network, job.runtime, files)
        report(_STEPS[3], 3, len(_STEPS))
        certificate = certify(network, run, runtime, job.name, files)
        metrics = list(job.extra_metrics)
        if job.evaluate:
            metrics = evaluate(run, network.spec, network.prepared.table, network.prepared.split, report) + metrics
        calibrated = calibrate(run, network.spec, network.prepared, job.calibration, report)
        calibrated.calibration.save(files)
        report(_STEPS[4], 4, len(_STEPS))
        facts = network.facts(runtime, file_entries(files), metrics, calibrated.words)
        manifest_for = partial(facts.manifest, job.name)
        verdict: str = certificate["verdict"]
        stored = store(manifest_for, files, name=job.name, version=job.version, verdict=verdict)
    report(_STEPS[4], len(_STEPS), len(_STEPS))
    return Pressed(stored, certificate, metrics, network.hyper.origins, network.checkpoint.source.notes)


def load_network(job: ForecastJob, report: Report = silent) -> Network:
    """Checkpoint, data and hyper-parameters joined into a network with the official weights in it."""
    record = _find(job.architecture)
    report(_STEPS[0], 0, len(_STEPS))
    checkpoint = read_checkpoint(job.checkpoint)
    _check_kind(record, checkpoint)
    report(_STEPS[1], 1, len(_STEPS))
    prepared = prepare(job.data)
    around = open_backbone(job.backbone) if job.backbone else None
    known = {} if around is None else {around.tag: stated_by(around)}
    hyper = gather(record, checkpoint, job.stated, len(prepared.columns) if prepared.columns else None, known)
    spec = make_spec(prepared, record, hyper, marks=job.data.marks)
    module, dropped = _build(record, checkpoint, hyper)
    notes = [*checkpoint.source.notes, *prepared.notes]
    if dropped:
        notes.append(f"{len(dropped)} official tensors never reach a forecast and were left out")
    source = checkpoint.source.model_copy(update={"dropped": dropped, "notes": notes})
    return Network(
        record=record,
        checkpoint=replace(checkpoint, source=source),
        hyper=hyper,
        prepared=prepared,
        spec=spec,
        module=module,
        backbone=None if around is None else refer(around, module, hyper.config),
    )


def write_weights(network: Network, kind: RuntimeKind, files: Path) -> tuple[Runtime, Runner]:
    """Write the weights in the runtime's format and open them again as the service will."""
    if kind == "onnx":
        variates = None if network.record.any_variates else network.hyper.config.variates
        spec = network.spec
        ahead = spec.horizon if spec.marks_ahead else 0
        shape = GraphShape(look_back=spec.look_back, variates=variates, marks=spec.marks_width, marks_ahead=ahead)
        convert(network.module, shape, files / GRAPH_FILE)
        return Runtime(kind="onnx", file=GRAPH_FILE, opset=OPSET), onnx_runner(files / GRAPH_FILE)
    from safetensors.torch import save_file

    save_file({name: t.contiguous() for name, t in network.module.state_dict().items()}, files / WEIGHTS_FILE)
    run = torch_runner(files / WEIGHTS_FILE, network.record.name, network.hyper.official)
    return Runtime(kind="torch", file=WEIGHTS_FILE), run


def certify(network: Network, run: Runner, runtime: Runtime, name: str, files: Path) -> dict[str, Any]:
    """Make the parity certificate and the example, or raise ParityError."""
    spec, tolerance = network.spec, parity.TOLERANCE
    results = [parity.check_case(c, ref, run, spec, tolerance) for c, ref in _references(network)]
    parity.require(results, tolerance)
    engine = "ONNX graph in onnxruntime" if runtime.kind == "onnx" else "network in torch"
    certificate = parity.certificate(results, tolerance, engine, runtime.opset)
    parity.save_cases(results, files / parity.CASES_FILE)
    (files / PARITY).write_text(json.dumps(certificate, indent=1) + "\n", encoding="utf-8")
    example = make_example(name, results[0].case, run, spec, tolerance)
    (files / EXAMPLE).write_text(json.dumps(example, ensure_ascii=False) + "\n", encoding="utf-8")
    return certificate


def _references(network: Network) -> list[tuple[Case, Any]]:
    """The certificate's cases with the official layout's forecasts."""
    spec, columns = network.spec, network.prepared.columns
    source = WindowSource(
        spec=spec,
        variates=len(columns) if columns else network.hyper.config.variates,
        table=network.prepared.table,
        split=network.prepared.split,
    )
    eager = module_runner(network.module)
    try:
        cases = plan_cases(source, any_variates=network.record.any_variates)
        return [(case, eager(case.tensors(spec))) for case in cases]
    except InputError as error:
        raise DataError(f"the data cannot be fed to the network: {error.message}", error.hint or "") from None


def _build(record: Architecture, checkpoint: Checkpoint, hyper: HyperParameters) -> tuple[nn.Module, list[str]]:
    try:
        translation = record.translate(checkpoint.state, hyper.config)
    except CheckpointError as error:
        shown = "; ".join(error.problems[:5]) + (" ..." if len(error.problems) > 5 else "")
        raise CheckpointFileError(f"{checkpoint.path.name}: {shown}", error.hint) from None
    module = record.build(hyper.config)
    module.load_state_dict(translation.state, strict=True)
    return module, translation.dropped


def _check_kind(record: Architecture, checkpoint: Checkpoint) -> None:
    """Tell apart the wrong network from the wrong sizes: the former would be reported as dozens of missing tensors."""
    seen = detect(checkpoint.state)
    if seen is not None and seen != record.name:
        raise CheckpointFileError(
            f"{checkpoint.path.name} is a checkpoint of {seen}, not of {record.name}",
            f"pressroom export forecast {seen} {checkpoint.path.name} ...",
        )


def _find(name: str) -> Architecture:
    try:
        return architecture(name)
    except UnknownArchitectureError as error:
        raise OptionError(str(error), "`pressroom export forecast --help` lists them") from None
