"""Press a forecaster: official checkpoint -> verified artifact in the model store.

read -> data and hyper-parameters -> translate -> convert -> certify -> evaluate -> describe -> store
Each step is a module of its own; this one only puts them in order. Nothing is stored unless every step succeeded.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import nn

from export import int8
from export.artifact import FileEntry, Metric, Runtime
from export.checkpoints import Checkpoint, read_checkpoint
from export.errors import CheckpointFileError, OptionError
from export.evaluate import evaluate
from export.forecast_backbone import open_backbone, refer, stated_by
from export.forecast_calibration import calibrate
from export.forecast_certify import certify, quantise
from export.forecast_data import DataOptions, Prepared, make_spec, prepare
from export.forecast_manifest import ForecastFacts
from export.hyperparameters import HyperParameters, Stated, gather
from export.onnx_graph import OPSET, GraphShape, convert
from export.progress import Report, silent
from export.runner import GRAPH_FILE, WEIGHTS_FILE, Runner, onnx_runner, torch_runner
from export.store import Stored, check_tag, file_entries, store
from models.forecasting.architecture import Architecture
from models.forecasting.registry import UnknownArchitectureError, architecture, detect
from models.forecasting.spec import ForecastSpec
from models.statedict import CheckpointError

RuntimeKind = Literal["onnx", "torch"]
Precision = Literal["fp32", "int8"]
_STEPS = ("read the checkpoint", "read the data", "convert", "certify", "store")


@dataclass(frozen=True, kw_only=True)
class ForecastJob:
    """Everything `pressroom export forecast` was told.

    precision      of the graph's weights and arithmetic; "int8": `export.int8`
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
    precision: Precision = "fp32"
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
    if job.precision == int8.PRECISION and job.runtime != "onnx":
        raise OptionError("--precision int8 is for ONNX graphs", "leave --runtime torch away")
    network = load_network(job, report)
    with tempfile.TemporaryDirectory(prefix="pressroom-") as scratch:
        files = Path(scratch)
        report(_STEPS[2], 2, len(_STEPS))
        runtime, run = write_weights(network, job.runtime, files)
        report(_STEPS[3], 3, len(_STEPS))
        certificate = certify(network, run, runtime, job.name, files)
        metrics = _measure(network, run, report) if job.evaluate else []
        if job.precision == int8.PRECISION:
            run, certificate = quantise(network, runtime, certificate, job.name, files)
            if job.evaluate:
                metrics = int8.beside_fp32(_measure(network, run, report), metrics)
        metrics += job.extra_metrics
        calibrated = calibrate(run, network.spec, network.prepared, job.calibration, report)
        calibrated.calibration.save(files)
        report(_STEPS[4], 4, len(_STEPS))
        words = calibrated.words | ({"precision": int8.PRECISION} if job.precision == int8.PRECISION else {})
        facts = network.facts(runtime, file_entries(files), metrics, words)
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


def _measure(network: Network, run: Runner, report: Report) -> list[Metric]:
    return evaluate(run, network.spec, network.prepared.table, network.prepared.split, report)


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
