"""What a forecaster's `artifact.json` says: signature in raw units, pipeline in words, where everything came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from export.artifact import FileEntry, Manifest, Metric, Official, Paper, Runtime, Signature, Source, TensorSpec
from export.hyperparameters import HyperParameters
from models.forecasting.architecture import Architecture
from models.forecasting.spec import ForecastSpec

FAMILY = "forecast"
RAW = "the column's own unit"


@dataclass(frozen=True, kw_only=True)
class ForecastFacts:
    """What a pressed forecaster is made of; `manifest` adds name and version."""

    architecture: Architecture
    hyper: HyperParameters
    spec: ForecastSpec
    source: Source
    runtime: Runtime
    files: dict[str, FileEntry]
    metrics: list[Metric]
    backbone: dict[str, Any] | None = None  # LIFT's, see `export.forecast_backbone`
    calibration: dict[str, Any] = field(default_factory=dict)  # what settings say of it

    def manifest(self, name: str, version: str) -> Manifest:
        """The manifest for a name and version."""
        record = self.architecture
        return Manifest(
            name=name,
            version=version,
            family=FAMILY,
            architecture=record.name,
            paper=Paper(title=record.title, venue=record.venue, url=record.paper_url),
            official=Official(repository=record.official_repo, commit=record.official_commit, licence=record.licence),
            source=self.source,
            hyper_parameters=self.hyper.official,
            hyper_parameter_origins=self.hyper.origins,
            signature=signature(self.spec),
            request=request_in_words(self.spec),
            pipeline=pipeline_in_words(self.spec),
            settings=self.spec.settings() | self.calibration | ({"backbone": self.backbone} if self.backbone else {}),
            runtime=self.runtime,
            files=self.files,
            metrics=self.metrics,
        )


def signature(spec: ForecastSpec) -> Signature:
    """Tensors of the served model, raw units in and out. "batch" and "columns" are dynamic axes."""
    columns: int | str = "columns" if spec.columns is None else len(spec.columns)
    order = "any columns" if spec.columns is None else f"columns in the order {', '.join(spec.columns)}"
    history = TensorSpec(
        name="history",
        dtype="FP32",
        shape=["batch", spec.look_back, columns],
        unit=RAW,
        meaning=f"the last {spec.look_back} steps of every series, oldest first; {order}",
    )
    timestamps = TensorSpec(
        name="timestamps",
        dtype="INT64",
        shape=["batch", spec.look_back],
        unit="seconds since 1970-01-01, local wall clock",
        meaning=f"one stamp a step, every {spec.frequency}; {_use_of_stamps(spec)}",
        range="regular, ascending",
        optional=not spec.marks_ahead,
    )
    future = TensorSpec(
        name="future_timestamps",
        dtype="INT64",
        shape=["batch", spec.horizon],
        unit="seconds since 1970-01-01, local wall clock",
        meaning=f"stamps of the horizon; left out: they follow the history's, every {spec.frequency}",
        range="regular, ascending",
        optional=True,
    )
    forecast = TensorSpec(
        name="forecast",
        dtype="FP32",
        shape=["batch", spec.horizon, columns],
        unit=RAW,
        meaning=f"the {spec.horizon} steps that follow the history",
    )
    inputs = [history, timestamps, *([future] if spec.marks_ahead else [])]
    return Signature(inputs=inputs, outputs=[forecast])


def _use_of_stamps(spec: ForecastSpec) -> str:
    if spec.marks_ahead:
        return "the calendar of history and horizon is read from them"
    return "left out: the forecast is made without the calendar" if spec.takes_marks else "checked, not read"


def request_in_words(spec: ForecastSpec) -> str:
    """What a client sends."""
    columns = "one or more columns" if spec.columns is None else f"the columns {', '.join(spec.columns)}"
    stamps = "with timestamps" if spec.takes_marks else "timestamps optional"
    return f"at least {spec.look_back} rows of {columns}, in raw units, one row every {spec.frequency}, {stamps}"


def pipeline_in_words(spec: ForecastSpec) -> list[str]:
    """What is done with it, step by step."""
    reason = f": {spec.look_back_reason}" if spec.look_back_reason else ""
    steps = [f"take the last {spec.look_back} rows{reason}"]
    if spec.scaler is None:
        steps.append("no scaler: the network normalises every window by itself")
    else:
        steps.append("scale each column: (value - mean) / std of the training rows, to float32")
    if spec.calendar is not None and spec.takes_marks:
        where = " of history and horizon" if spec.marks_ahead else ""
        steps.append(
            f"calendar marks from the wall clock{where}: {', '.join(spec.calendar.marks)}, each in [-0.5, 0.5]"
        )
    steps.append(f"network: {spec.horizon} steps for every column")
    if spec.scaler is not None:
        steps.append("undo the scaling: value * std + mean")
    return steps
