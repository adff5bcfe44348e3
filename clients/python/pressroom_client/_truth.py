"""The truth task: what really happened, sent after a forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import _json
from ._errors import UnexpectedAnswer
from ._forecast_types import CoverageNote, TruthResult
from ._history import Histories, normalise


@dataclass(frozen=True, kw_only=True)
class TruthCall:
    """One request. `model` None: the server chooses."""

    model: str | None
    version: str | None
    body: bytes
    path: str = "/v1/forecast/truth"

    def read(self, body: bytes, request_id: str) -> TruthResult:
        """The result of a native JSON answer; UnexpectedAnswer if it is none."""
        try:
            return _result(_json.decode(body), request_id)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the answer is not that of a truth: {type(error).__name__} at {error}"
            raise UnexpectedAnswer(message, hint="are client and server of one version?") from error


def truth_call(truth: Histories, *, model: str | None, version: str | None, request_id: str | None) -> TruthCall:
    """UsageError if it cannot be written down."""
    fields = ("id", "timestamps", "tz", "values")
    series = [{name: one.wire[name] for name in fields if name in one.wire} for one in normalise(truth)]
    return wired_truth(series, model=model, version=version, request_id=request_id)


def wired_truth(
    series: list[dict[str, Any]], *, model: str | None, version: str | None, request_id: str | None
) -> TruthCall:
    """The same of series already in their wire form."""
    asked = {"model": model, "version": version, "request_id": request_id}
    body = _json.encode({name: value for name, value in asked.items() if value is not None} | {"truth": series})
    return TruthCall(model=model, version=version, body=body)


def _result(answer: Mapping[str, Any], request_id: str) -> TruthResult:
    return TruthResult(
        forecasts=tuple(one["forecasts"] for one in answer["truth"]),
        values=tuple(one["values"] for one in answer["truth"]),
        coverage=tuple(CoverageNote(c["method"], c["level"], c["coverage"], c["values"]) for c in answer["coverage"]),
        model=answer.get("model"),
        version=answer.get("version"),
        request_id=answer.get("request_id") or request_id,
    )
