"""The health-record task: its native JSON request, and its answer as typed values.

The same bytes travel as the body of POST /v1/ehr/predict and as the BYTES input `request` of a gRPC ModelInfer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import _json
from ._ehr_records import Moment, Moments, records_wire
from ._ehr_types import TimeToEventResult, parse_patient
from ._errors import PressroomError, UnexpectedAnswer, UsageError
from ._types import Timings

PATH = "/v1/ehr/predict"


@dataclass(frozen=True, kw_only=True)
class EhrCall:
    """One request. `model` None: the server chooses (it serves one such model)."""

    model: str | None
    version: str | None
    body: bytes
    path: str = PATH

    def read(self, body: bytes, request_id: str) -> TimeToEventResult:
        """The result of a native JSON answer; UnexpectedAnswer, which quotes nothing of it, if it is none."""
        try:
            return _result(_json.decode(body), request_id)
        except PressroomError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"the answer is no time-to-event prediction: {type(error).__name__}"
            raise UnexpectedAnswer(message, hint="are client and server of one version?") from error


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What `predict_time_to_event` was given."""

    events: Any
    prediction_time: Moments
    births: Mapping[Any, Moment] | None
    tasks: Iterable[str] | None
    horizons_days: Iterable[float] | None
    strict_same_day: bool
    return_representation: bool


def ehr_call(asked: Asked, model: str | None, version: str | None) -> EhrCall:
    """Ready for either transport; UsageError if it cannot be written down."""
    if isinstance(asked.tasks, str):
        raise UsageError("tasks is one string, expected a list of them", field="tasks", hint='["death"]')
    payload = {
        "model": model,
        "version": version,
        **records_wire(asked.events, asked.prediction_time, asked.births),
        "tasks": None if asked.tasks is None else list(asked.tasks),
        "horizons_days": None if asked.horizons_days is None else [float(days) for days in asked.horizons_days],
        "strict_same_day": asked.strict_same_day or None,
        "return_representation": asked.return_representation or None,
    }
    body = _json.encode({name: value for name, value in payload.items() if value is not None})
    return EhrCall(model=model, version=version, body=body)


def _result(answer: Mapping[str, Any], request_id: str) -> TimeToEventResult:
    return TimeToEventResult(
        patients=tuple(parse_patient(raw) for raw in answer["patients"]),
        model=answer["model"],
        version=answer["version"],
        digest=answer["digest"],
        backbone=answer["backbone"],
        dictionary=answer["dictionary"],
        request_id=answer.get("request_id") or request_id,
        timings=Timings.parse(answer.get("timings") or {}),
        batch_rows=answer.get("batch_rows"),
    )
