"""Forecasts from published forecasters: raw series in, raw forecasts out.

Start it alone with `pressroom serve forecast` or `bentoml serve services.forecast:Forecast`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from export.artifact import Artifact, ArtifactError
from models.forecasting import calibration
from models.forecasting.spec import ForecastSpec
from services.core.app import ServiceBase, pressroom_service
from services.core.model import Task, runtime_options
from services.core.runtime import OnnxRuntime, Runtime, TorchRuntime
from services.core.settings import Settings
from services.forecast_memory import Memory
from services.forecast_model import TRUTH_ROUTE, ForecastModel, Shared
from services.forecast_schema import (
    ForecastRequest,
    ForecastResponse,
    TruthRequest,
    TruthResponse,
    example_request,
    example_truth,
)
from services.forecast_truth import Desk


class ForecastFamily:
    """Loads forecasters."""

    name: ClassVar[str] = "forecast"
    tasks: ClassVar[Sequence[Task]] = (
        Task(route="/v1/forecast", request=ForecastRequest, response=ForecastResponse, example=example_request()),
        Task(route=TRUTH_ROUTE, request=TruthRequest, response=TruthResponse, example=example_truth()),
    )

    def __init__(self) -> None:
        self._memory = Memory()
        self._desk = Desk(self._memory)

    def load(self, artifact: Artifact, settings: Settings) -> ForecastModel:
        try:
            spec = ForecastSpec.from_settings(artifact.manifest.settings)
            known = calibration.load(artifact.path)
        except (KeyError, ValueError, TypeError) as fault:
            raise ArtifactError(
                f"{artifact.tag}: settings are not a forecaster's: {fault}", "export it again"
            ) from None
        return ForecastModel(
            artifact, spec, _runtime(artifact, settings), known, Shared(settings, self._memory, self._desk)
        )


def _runtime(artifact: Artifact, settings: Settings) -> Runtime:
    runtime, options = artifact.manifest.runtime, runtime_options(settings)
    weights = artifact.file(runtime.file)
    if runtime.kind == "onnx":
        return OnnxRuntime(weights, options)
    from safetensors.torch import load_file  # torch is imported only by services that need it

    from models.forecasting.registry import architecture

    known = architecture(artifact.manifest.architecture)
    network = known.build(known.parse_config(artifact.manifest.hyper_parameters))
    network.load_state_dict(load_file(weights))
    return TorchRuntime(network, ["forecast"], options)


@pressroom_service(ForecastFamily())
class Forecast(ServiceBase):
    """Forecasts from verified artifacts of published forecasters."""
