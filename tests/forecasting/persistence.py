"""A forecaster whose answers are known in advance: every column goes on at its last value plus its last step.

It runs behind the real pipeline, reader, intervals and truths, in this process; the client's own code writes its
requests and reads its answers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from pressroom_client import ForecastResult
from pressroom_client._forecast import forecast_call
from pressroom_client._truth import TruthResult, truth_call

from export.artifact import PARITY, Artifact, Manifest
from export.forecast_manifest import signature
from models.forecasting.calibration import Calibration
from models.forecasting.conformal import Conformal, calibrate
from models.forecasting.drift import Reference, reference
from models.forecasting.frequency import Frequency
from models.forecasting.spec import ForecastSpec
from services.core.call import Call
from services.core.settings import Settings
from services.core.tensors import Tensors
from services.forecast_memory import Memory
from services.forecast_model import ForecastModel, Shared
from services.forecast_truth import Desk

LOOK_BACK, HORIZON = 8, 4
COLUMNS = ("a", "b")
SCORES = np.linspace(0.01, 1, 200)[:, None, None] * np.ones((1, HORIZON, len(COLUMNS)))


class Line:
    """The network: x_enc [B, L, C] -> forecast [B, H, C] on the line through the last two values."""

    def run(self, tensors: Tensors) -> Tensors:
        x = tensors["x_enc"]
        steps = np.arange(1, HORIZON + 1, dtype=np.float32)[None, :, None]
        return {"forecast": x[:, -1:] + steps * (x[:, -1:] - x[:, -2:-1])}


def spec_of(frequency: str = "h", columns: tuple[str, ...] | None = COLUMNS, *, marks: bool = False) -> ForecastSpec:
    return ForecastSpec(
        look_back=LOOK_BACK,
        horizon=HORIZON,
        columns=columns,
        frequency=Frequency.parse(frequency),
        calendar=Frequency("h") if marks else None,
        scaler=None,
    )


def conformal() -> Conformal:
    """Scores are spread evenly over (0, 1]: the quantile of level p is close to p / 100."""
    return calibrate(SCORES, np.ones(len(COLUMNS)), season=1)


@dataclass
class Line8:
    """The forecaster, and the same calls as the client's."""

    folder: Path
    spec: ForecastSpec = field(default_factory=spec_of)
    calibrated: bool = True
    known: Reference | None = None
    memory: Memory = field(default_factory=Memory)
    version: str = "1"

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / PARITY).write_text(json.dumps({"verdict": "ok", "max_abs": 0.0, "tolerance": {}, "cases": []}))
        artifact = Artifact(self.folder, _manifest(self.spec, self.version), "sha256:" + "0" * 64, 0)
        calibration = Calibration(conformal() if self.calibrated else None, self.known)
        settings = Settings(max_delay_ms=0, max_request_rows=100)
        self.desk = Desk(self.memory)
        shared = Shared(settings, self.memory, self.desk)
        self.model = ForecastModel(artifact, self.spec, Line(), calibration, shared)
        self.model.announce([])

    async def ask(
        self, history: Any, *, request_id: str = "r1", horizon: int | None = None, **options: Any
    ) -> ForecastResult:
        """Through the client's writer and reader, and JSON in between."""
        call = forecast_call(history, model=None, version=None, horizon=horizon, options=options)
        answer = await self.model.answer(orjson.loads(call.body), Call("/v1/forecast", "http", request_id))
        return call.read(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), request_id)

    async def tell(self, truth: Any, *, request_id: str | None = None) -> TruthResult:
        call = truth_call(truth, model=None, version=None, request_id=request_id)
        answer = await self.model.answer(orjson.loads(call.body), Call("/v1/forecast/truth", "http", "t"))
        return call.read(orjson.dumps(answer), "t")


def uniform_reference(rows: int = 1000) -> Reference:
    """Deciles of 0 ... 1 in both columns."""
    return reference(np.linspace(0, 1, rows)[:, None] * np.ones((1, len(COLUMNS))))


def _manifest(spec: ForecastSpec, version: str) -> Manifest:
    empty = {"repository": "", "commit": "", "licence": ""}
    return Manifest.model_validate({
        "name": "line", "version": version, "family": "forecast", "architecture": "line",
        "paper": {"title": "", "venue": "", "url": ""}, "official": empty,
        "source": {"file": "", "format": "pth", "sha256": "", "tensors": 0}, "hyper_parameters": {},
        "signature": signature(spec).model_dump(), "request": "", "pipeline": [], "settings": spec.settings(),
        "runtime": {"kind": "onnx", "file": "model.onnx"}, "files": {},
    })  # fmt: skip
