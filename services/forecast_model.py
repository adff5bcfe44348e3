"""A served forecaster: raw series in, raw forecasts out, with intervals and drift where it was calibrated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from export.artifact import Artifact, TensorSpec
from models.errors import InputError
from models.forecasting.calibration import Calibration
from models.forecasting.frequency import Stamps
from models.forecasting.pipeline import check_range, to_raw, to_tensors, too_short, with_horizon
from models.forecasting.series import Window
from models.forecasting.series_time import check_future
from models.forecasting.spec import ForecastSpec
from models.forecasting.timestamps import EARLIEST, LATEST, check_instants
from services.core.call import Call
from services.core.errors import ApiError
from services.core.model import Json, TensorModel, batch_policy
from services.core.runtime import Runtime
from services.core.settings import Settings
from services.core.tensors import Tensors, is_finite
from services.forecast_answer import write_series
from services.forecast_intervals import Intervals
from services.forecast_memory import Memory
from services.forecast_metrics import DriftMetrics
from services.forecast_request import Ask, no_calibration, read_request
from services.forecast_truth import Desk, read_truth

TRUTH_ROUTE = "/v1/forecast/truth"
FUTURE = "future_timestamps"
YEAR_SECONDS = 366 * 86_400  # no step that has no fixed length is longer

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shared:
    """What the forecasters of one server share: settings, remembered forecasts, and the desk where truths come in."""

    settings: Settings
    memory: Memory
    desk: Desk


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

    def __init__(
        self, artifact: Artifact, spec: ForecastSpec, network: Runtime, calibration: Calibration, shared: Shared
    ) -> None:
        super().__init__(artifact, ForecastPipeline(network, spec), batch_policy(shared.settings))
        self.spec = spec
        self._shared = shared
        self._max_rows = shared.settings.max_request_rows
        self._accepts = [s if s.name == FUTURE else _any_length(s) for s in self.inputs]
        conformal, self._reference = calibration.conformal, calibration.reference
        self.intervals = None
        if conformal is not None:
            self.intervals = Intervals(self.name, self.version, conformal, shared.memory)
        self._drift: DriftMetrics | None = None

    @property
    def accepts(self) -> list[TensorSpec]:
        """The signature with a free time axis: longer histories are cut to their last L rows."""
        return self._accepts

    def prepare(self, tensors: Tensors) -> Tensors:
        """history FP32 [B, >= L, C], optionally timestamps INT64 [B, same], as `ForecastPipeline` takes them.

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
        return self._raw_tensors(history[:, -needed:], stamps)

    def complete(self, tensors: Tensors, outputs: Tensors, call: Call) -> tuple[Tensors, Json]:
        """forecast FP32 [B, H, C], and what of the history and the calendar was read."""
        history, needed = tensors["history"], self.spec.look_back
        self._watch(history[:, -needed:], call)
        notes: Json = {"history_received": history.shape[1], "history_used": needed}
        if self.spec.takes_marks:
            notes["calendar"] = "present" if "timestamps" in tensors else "absent"
        return {"forecast": _finite(outputs).astype(np.float32)}, notes

    async def answer(self, request: Json, call: Call) -> Json:
        """The JSON routes, see `services.forecast_schema`; inside a tensor, a request with `truth` brings truths."""
        if call.route == TRUTH_ROUTE or "truth" in request:
            return await self._settle(request, call)
        ask = read_request(request, self.spec, self.intervals, self._max_rows)
        forecasts = await self._rolled(ask, call)
        self._watch((window.history for window in ask.windows), call)
        radii = await self._radii(ask, forecasts, call)
        each = zip(ask.windows, forecasts, radii, strict=True)
        return {"series": [write_series(w, f, r, ask, self.spec) for w, f, r in each]}

    def numbers(self, answer: Json) -> Floats:
        columns = [np.asarray(v, dtype=np.float64) for s in answer.get("series", ()) for v in s["values"].values()]
        return np.concatenate(columns) if columns else np.empty(0)

    def announce(self, routes: list[str]) -> None:
        super().announce(routes)
        if self.intervals is not None:
            self.intervals.announce()
            self._shared.desk.open(self.intervals)
        if self._reference is not None and self.spec.columns is not None:
            self._drift = DriftMetrics(self.name, self.version, self.spec.columns, self._reference)

    def retire(self) -> None:
        super().retire()
        if self.intervals is not None:
            self.intervals.retire()
            self._shared.desk.shut(self.intervals)
        if self._drift is not None:
            self._drift.retire()

    async def _settle(self, request: Json, call: Call) -> Json:
        """Truths meet the forecasts they are the truth of."""
        if self.intervals is None:
            raise no_calibration("model")
        truths = read_truth(request, self.spec, self._max_rows)
        met: list[Json] = []
        if call.protocol != "none":  # a shadow's repetition would teach twice
            settle = self._shared.desk.settle
            met = await asyncio.to_thread(settle, self.name, request.get("request_id"), truths, self.spec)
        coverage = [
            {"method": method, "level": level, "coverage": covered / max(total, 1), "values": total}
            for (method, level), (covered, total) in self.intervals.coverage().items()
        ]
        return {"truth": met, "coverage": coverage}

    async def _rolled(self, ask: Ask, call: Call) -> list[Floats]:
        """Forecasts [>= horizon, C] of the windows, each going on from its own forecast as far as is asked."""
        windows = ask.windows
        parts = [await self._forecast(windows, call)]
        while len(parts) * self.spec.horizon < ask.horizon:
            windows = [_moved(w, f, self.spec) for w, f in zip(windows, parts[-1], strict=True)]
            parts.append(await self._forecast(windows, call))
        return parts[0] if len(parts) == 1 else [np.concatenate(one) for one in zip(*parts, strict=True)]

    async def _radii(self, ask: Ask, forecasts: list[Floats], call: Call) -> list[Floats] | list[None]:
        """Half-widths [levels, H, C] of each window's intervals."""
        if ask.wish is None or self.intervals is None:
            return [None] * len(forecasts)
        request = "" if call.protocol == "none" else call.request_id
        step = self.spec.frequency.seconds or YEAR_SECONDS
        return await asyncio.to_thread(self.intervals.keep, ask.wish, ask.windows, forecasts, request, step)

    def _watch(self, histories: Iterable[npt.NDArray[np.floating[Any]]], call: Call) -> None:
        """Count what callers send, for the drift gauges."""
        if self._drift is not None and call.protocol != "none":
            for history in histories:
                self._drift.observe(history)

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


def _moved(window: Window, forecast: Floats, spec: ForecastSpec) -> Window:
    """The window one horizon later, the forecast taken for what happened."""
    history = np.concatenate([window.history, forecast])[-spec.look_back :]
    if window.axis is None:
        return replace(window, history=history)
    ahead = spec.frequency.after(int(window.axis.steps[-1]), spec.horizon)
    steps = np.concatenate([window.axis.steps, ahead])[-spec.look_back :]
    return replace(window, history=history, axis=window.axis.at(steps), future=None)


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
    if not is_finite(forecast):
        raise ApiError("inference_failed", "the forecast is not finite", hint="check the history for extreme values")
    return forecast
