"""The forecast task: its native JSON request, and its answer as typed values.

The same bytes travel as the body of POST /v1/forecast and as the BYTES input `request` of a gRPC ModelInfer, so both
transports answer alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _json
from ._errors import UnexpectedAnswer, UsageError
from ._forecast_types import Filled, Interval
from ._history import Histories, Sent, normalise
from ._timestamps import from_wire
from ._types import Forecast, ForecastResult, HistoryUse, Timings, WarningNote


@dataclass(frozen=True, kw_only=True)
class ForecastCall:
    """One forecast request. `model` None: the server chooses (it serves one forecaster)."""

    model: str | None
    version: str | None
    body: bytes
    sent: tuple[Sent, ...]

    def read(self, body: bytes, request_id: str) -> ForecastResult:
        """The result of a native JSON answer; UnexpectedAnswer if it is none."""
        try:
            answer = _json.decode(body)
            return _result(answer, self.sent, request_id)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the answer is not a forecast: {type(error).__name__} at {error}"
            raise UnexpectedAnswer(message, hint="are client and server of one version?") from error


def forecast_call(
    history: Histories,
    *,
    model: str | None,
    version: str | None,
    horizon: int | None,
    options: Mapping[str, Any] | None = None,
) -> ForecastCall:
    """Everything `forecast` was given, ready for either transport; UsageError if it cannot be written down."""
    if horizon is not None and horizon < 1:
        raise UsageError(f"horizon is {horizon}, expected at least 1 time step", field="horizon")
    sent = normalise(history)
    asked = {"model": model, "version": version, "horizon": horizon, **(options or {})}
    payload = {name: value for name, value in asked.items() if value is not None}
    body = _json.encode({**payload, "series": [one.wire for one in sent]})
    return ForecastCall(model=model, version=version, body=body, sent=sent)


def _result(answer: Mapping[str, Any], sent: tuple[Sent, ...], request_id: str) -> ForecastResult:
    series = answer["series"]
    if len(series) != len(sent):
        raise UnexpectedAnswer(f"sent {len(sent)} series, the answer holds {len(series)}", field="series")
    return ForecastResult(
        forecasts=tuple(_one(raw, one) for raw, one in zip(series, sent, strict=True)),
        model=answer.get("model"),
        version=answer.get("version"),
        digest=answer.get("digest"),
        request_id=answer.get("request_id") or request_id,
        timings=Timings.parse(answer.get("timings") or {}),
        batch_rows=answer.get("batch_rows"),
    )


def _one(raw: Mapping[str, Any], sent: Sent) -> Forecast:
    stamps = raw.get("timestamps")
    timestamps, zone = (None, None) if not stamps else from_wire(stamps)
    used, filled, order = raw.get("history"), raw.get("filled"), _order(raw["values"], sent)
    return Forecast(
        id=raw.get("id", sent.id),
        values={name: np.asarray(raw["values"][name], np.float64) for name in order},
        intervals=tuple(Interval.parse(one, order) for one in raw.get("intervals") or ()),
        filled=Filled(filled["policy"], filled["timestamps"], dict(filled["values"])) if filled else None,
        timestamps=timestamps,
        zone=zone,
        history=HistoryUse(used["received"], used["used"]) if used else None,
        warnings=tuple(WarningNote(note["code"], note["message"]) for note in raw.get("warnings") or ()),
        _template=sent.template,
    )


def _order(values: Mapping[str, Any], sent: Sent) -> list[str]:
    """Columns in the order they were sent; what was not sent comes last."""
    position = {name: index for index, name in enumerate(sent.wire["values"])}
    return sorted(values, key=lambda name: position.get(name, len(position)))
