"""Forecasts from iTransformer and CARD: raw series in, raw forecasts out.

Start it alone with `pressroom serve forecast` or `bentoml serve services.forecast:Forecast`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from export.artifact import Artifact, ArtifactError, TensorSpec
from models.errors import InputError
from models.forecasting.frequency import Stamps
from models.forecasting.pipeline import SMALL, check_range, to_raw, to_tensors, too_short, with_horizon
from models.forecasting.series import Window, read_series
from models.forecasting.series_time import check_future
from models.forecasting.spec import ForecastSpec
from models.forecasting.timestamps import EARLIEST, LATEST, check_instants
from services.core.app import ServiceBase, pressroom_service
from services.core.call import Call
from services.core.errors import ApiError
from services.core.model import Json, Task, TensorModel, batch_policy, runtime_options
from services.core.runtime import OnnxRuntime, Runtime, TorchRuntime
from services.core.settings import Settings
from services.core.tensors import Tensors
from services.forecast_schema import ForecastRequest, ForecastResponse, example_request

FUTURE = "future_timestamps"
_KEYS = frozenset({"model", "version", "horizon", "series"})


class ForecastPipeline:
    """The network inside its pipeline, a whole batch at a time: a runtime that takes and gives raw units.

    history [B, L, C] float64, wall_clock [B, L] int64 or absent -> forecast [B, H, C] float64
    """

    def __init__(self, network: Runtime, spec: ForecastSpec) -> None:
        self._network = network
        self._spec = spec

    def run(self, raw: Tensors) -> Tensors:
        tensors = to_tensors(raw["history"], raw.get("wall_clock"), self._spec)
        return {"forecast": to_raw(self._network.run({**tensors})["forecast"], self._spec)}


class ForecastModel(TensorModel):
    """One served forecaster. L = look_back, H = horizon, C = columns."""

    def __init__(self, artifact: Artifact, spec: ForecastSpec, network: Runtime, settings: Settings) -> None:
        super().__init__(artifact, ForecastPipeline(network, spec), batch_policy(settings))
        self.spec = spec
        self._max_rows = settings.max_request_rows
        self._accepts = [s if s.name == FUTURE else _any_length(s) for s in self.inputs]

    @property
    def accepts(self) -> list[TensorSpec]:
        """The signature with a free time axis: longer histories are cut to their last L rows."""
        return self._accepts

    async def infer(self, tensors: Tensors, call: Call) -> tuple[Tensors, Json]:
        """history FP32 [B, >= L, C] and optionally timestamps INT64 [B, same] -> forecast FP32 [B, H, C].

        A network whose calendar goes over the horizon needs timestamps, and takes future_timestamps INT64 [B, H].
        """
        history, stamps = tensors["history"], tensors.get("timestamps")
        received, needed = history.shape[1], self.spec.look_back
        if received < needed:
            raise too_short(received, self.spec, "history")
        check_range(history, self.spec, "history")
        if stamps is not None:
            self._check_stamps(stamps, received)
            stamps = self._continued(stamps[:, -needed:], tensors.get(FUTURE))
        (output,) = await self.batcher.submit([self._raw_tensors(history[:, -needed:], stamps)], call)
        notes: Json = {"history_received": received, "history_used": needed}
        if self.spec.takes_marks:
            notes["calendar"] = "absent" if stamps is None else "present"
        return {"forecast": _finite(output).astype(np.float32)}, notes

    async def answer(self, request: Json, call: Call) -> Json:
        """The JSON route; see `services.forecast_schema`."""
        if unknown := sorted(request.keys() - _KEYS):
            raise InputError(
                "invalid_request",
                f"unknown field {unknown[0][:60]!r}",
                field=unknown[0][:60],
                hint="a request has the fields model, version, horizon, series",
            )
        horizon = self._read_horizon(request.get("horizon"))
        windows = self._read_windows(request.get("series"))
        forecasts = await self._forecast(windows, call)
        return {"series": [self._write(w, f[:horizon]) for w, f in zip(windows, forecasts, strict=True)]}

    def numbers(self, answer: Json) -> npt.NDArray[np.float64]:
        columns = [np.asarray(v, dtype=np.float64) for s in answer["series"] for v in s["values"].values()]
        return np.concatenate(columns)

    def _read_horizon(self, sent: Any) -> int:
        if sent is None:
            return self.spec.horizon
        if type(sent) is not int or sent < 1:
            raise InputError("invalid_request", "horizon must be a positive whole number", field="horizon")
        if sent > self.spec.horizon:
            raise InputError(
                "horizon_too_long",
                f"{sent} steps were asked for, the model forecasts {self.spec.horizon}",
                field="horizon",
                hint="ask for fewer steps, or pick a model trained for more (GET /v1/models)",
            )
        return sent

    def _read_windows(self, series: Any) -> list[Window]:
        entries = [series] if isinstance(series, dict) else series
        if not isinstance(entries, list):
            raise InputError("invalid_request", "series must be a list or an object", field="series")
        if not entries:
            raise InputError("empty_batch", "the request has no series", field="series", hint="send at least one")
        if len(entries) > self._max_rows:
            raise InputError(
                "too_many_rows",
                f"{len(entries)} series came, the limit is {self._max_rows}",
                field="series",
                hint="split the request",
            )
        windows = [read_series(entry, self.spec, f"series[{i}]") for i, entry in enumerate(entries)]
        for i, window in enumerate(windows):
            self._check_calendar_end(window, f"series[{i}].timestamps")
        return windows

    def _check_calendar_end(self, window: Window, field: str) -> None:
        if window.axis is None:
            return
        latest = max(int(window.axis.steps[-1]), int(window.axis.wall_clock[-1]))
        if self.spec.frequency.after(latest, self.spec.horizon)[-1] > LATEST:
            raise InputError("timestamps_invalid", "the forecast would end after the year 9999", field=field)

    async def _forecast(self, windows: list[Window], call: Call) -> list[npt.NDArray[np.float64]]:
        """Forecasts [H, C] in the order of the windows; windows of equal width go through the network together."""
        widths: dict[int, list[int]] = {}
        for i, window in enumerate(windows):
            widths.setdefault(len(window.columns), []).append(i)
        items = [self._tensors([windows[i] for i in members]) for members in widths.values()]
        outputs = await self.batcher.submit(items, call)
        found: dict[int, npt.NDArray[np.float64]] = {}
        for members, output in zip(widths.values(), outputs, strict=True):
            found |= zip(members, _finite(output), strict=True)
        return [found[i] for i in range(len(windows))]

    def _tensors(self, windows: list[Window]) -> Tensors:
        history = np.stack([w.history for w in windows])
        if not self.spec.takes_marks:
            return self._raw_tensors(history, None)
        return self._raw_tensors(
            history, np.stack([clock for w in windows if (clock := w.clock(self.spec)) is not None])
        )

    def _raw_tensors(self, history: npt.NDArray[np.floating[Any]], wall_clock: Stamps | None) -> Tensors:
        """What `ForecastPipeline` takes; one dtype, so that requests of every protocol share batches."""
        tensors: Tensors = {"history": history.astype(np.float64, copy=False)}
        if self.spec.takes_marks and wall_clock is not None:
            tensors["wall_clock"] = wall_clock
        return tensors

    def _continued(self, stamps: Stamps, future: Stamps | None) -> Stamps:
        """Stamps [B, L] of a tensor request as the network's calendar needs them, [B, L + H] where marks go ahead."""
        if not self.spec.marks_ahead:
            return stamps
        if future is None:
            return with_horizon(stamps, self.spec)
        for i, row in enumerate(future):
            check_future(row, stamps[i, -1], self.spec, f"{FUTURE}[{i}]")
        return np.concatenate([stamps, future], axis=1)

    def _check_stamps(self, stamps: Stamps, rows: int) -> None:
        if stamps.shape[1] != rows:
            raise InputError(
                "length_mismatch", f"{stamps.shape[1]} timestamps for {rows} rows of history", field="timestamps"
            )
        if self.spec.frequency.is_regular(stamps) and _within_years(stamps):
            return
        for i, row in enumerate(stamps):  # find the place to name
            check_instants(row, f"timestamps[{i}]")
            self.spec.frequency.check(row, f"timestamps[{i}]")

    def _write(self, window: Window, forecast: npt.NDArray[np.float64]) -> Json:
        columns = np.ascontiguousarray(forecast.T)
        warnings = []
        if window.received > self.spec.look_back:
            message = f"got {window.received} time steps; the last {self.spec.look_back} were used"
            warnings.append({"code": "history_truncated", "message": message})
        return {
            "id": window.id,
            "timestamps": self._horizon_stamps(window, len(forecast)),
            "values": dict(zip(window.columns, columns, strict=True)),
            "history": {"received": window.received, "used": self.spec.look_back},
            "warnings": warnings,
        }

    def _horizon_stamps(self, window: Window, steps: int) -> list[str] | list[int] | None:
        if window.axis is None:
            return None
        if window.future is not None:
            return window.future.sent(steps)
        return window.axis.write(self.spec.frequency.after(int(window.axis.steps[-1]), steps))


class ForecastFamily:
    """Loads forecasters."""

    name: ClassVar[str] = "forecast"
    tasks: ClassVar[Sequence[Task]] = (
        Task(route="/v1/forecast", request=ForecastRequest, response=ForecastResponse, example=example_request()),
    )

    def load(self, artifact: Artifact, settings: Settings) -> ForecastModel:
        try:
            spec = ForecastSpec.from_settings(artifact.manifest.settings)
        except (KeyError, ValueError, TypeError) as fault:
            raise ArtifactError(
                f"{artifact.tag}: settings are not a forecaster's: {fault}", "export it again"
            ) from None
        return ForecastModel(artifact, spec, _runtime(artifact, settings), settings)


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


def _any_length(spec: TensorSpec) -> TensorSpec:
    return spec.model_copy(update={"shape": [spec.shape[0], "time", *spec.shape[2:]]})


def _within_years(stamps: Stamps) -> bool:
    """Whether regular stamps [B, L] lie in the years 1 to 9999."""
    firsts: list[int] = stamps[:, 0].tolist()
    lasts: list[int] = stamps[:, -1].tolist()
    return min(firsts) >= EARLIEST and max(firsts) <= LATEST and max(lasts) <= LATEST


def _finite(output: Tensors) -> npt.NDArray[np.float64]:
    """The forecast [B, H, C] of one request. Raises ApiError if the network made something else than numbers."""
    forecast = output["forecast"]
    if forecast.size <= SMALL and math.isfinite(np.vdot(forecast, forecast)):
        return forecast
    if not np.isfinite(forecast).all():
        raise ApiError("inference_failed", "the forecast is not finite", hint="check the history for extreme values")
    return forecast


@pressroom_service(ForecastFamily())
class Forecast(ServiceBase):
    """Forecasts from verified artifacts of published forecasters."""
