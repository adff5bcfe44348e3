"""The one error shape of every route and protocol, and the closed list of its codes.

    {"error": {"code": "history_too_short", "message": "...", "field": "...", "hint": "...", "request_id": "..."}}

HTTP carries it as the body; gRPC carries the same JSON in trailing metadata (`pressroom-error-bin`) beside the status.
Codes are stable words; messages may change. Nothing internal (trace, path, other callers' data) is ever in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from models.errors import InputError


@dataclass(frozen=True)
class ErrorCode:
    """HTTP status, gRPC status name and meaning of one code."""

    http: int
    grpc: str
    meaning: str


def _refused(meaning: str) -> ErrorCode:
    return ErrorCode(422, "INVALID_ARGUMENT", meaning)


CODES: dict[str, ErrorCode] = {
    "invalid_json": ErrorCode(400, "INVALID_ARGUMENT", "the body is not JSON, or its binary part does not add up"),
    "invalid_request": _refused("a field is missing, unknown or of the wrong type"),
    "empty_batch": _refused("no series, or zero rows"),
    "history_too_short": _refused("fewer time steps than the model's look-back"),
    "columns_missing": _refused("a column of the model was not sent"),
    "columns_unexpected": _refused("a column the model does not know was sent"),
    "columns_reordered": _refused("the right columns in another order"),
    "length_mismatch": _refused("columns or timestamps of different lengths"),
    "value_not_finite": _refused("NaN, infinity or a missing value"),
    "value_not_numeric": _refused("text, a boolean or an object where a number belongs"),
    "value_out_of_range": _refused("a number too large for the model's arithmetic"),
    "timestamps_invalid": _refused("missing or unreadable timestamps, or of mixed styles"),
    "timestamps_unsorted": _refused("a timestamp earlier than the one before it"),
    "timestamps_duplicate": _refused("a repeated timestamp"),
    "timestamps_gap": _refused("missing time steps"),
    "frequency_mismatch": _refused("timestamps of another frequency than the model's"),
    "horizon_too_long": _refused("more steps than the model forecasts"),
    "image_invalid": _refused("no image, or one that cannot be read: another format, cut short, or not what it says"),
    "image_too_large": _refused("more pixels than the server decodes; nothing was decoded"),
    "box_invalid": _refused("a box that is reversed, empty, outside the image, or not four finite numbers"),
    "mask_invalid": _refused("a mask that is empty, unreadable or of another size than the image"),
    "label_invalid": _refused("a label or template that says nothing, comes twice or is unknown to the model"),
    "empty_prompt": _refused("nothing to continue: an empty prompt, or no messages"),
    "not_supported": _refused("something the route's other servers do and this one does not"),
    "context_length_exceeded": ErrorCode(
        400, "INVALID_ARGUMENT", "prompt and answer together are longer than the model's context"
    ),
    "birth_missing": _refused("no birth, so no age is known"),
    "birth_conflict": _refused("births at different times"),
    "event_before_birth": _refused("an event before birth"),
    "prediction_before_birth": _refused("a prediction time before birth"),
    "prediction_after_death": _refused("a prediction time at or after death"),
    "age_out_of_range": _refused("an age above 125 years"),
    "history_empty": _refused("no event at or before the prediction time"),
    "history_unknown": _refused("events the model's dictionary knows nothing of"),
    "history_too_long": _refused("more positions than the model takes"),
    "task_not_found": _refused("a task the model does not have"),
    "parquet_invalid": _refused("no parquet file in MEDS layout"),
    "tensor_missing": _refused("a required input tensor was not sent"),
    "tensor_unexpected": _refused("an input tensor the model does not have"),
    "tensor_dtype": _refused("an input tensor of the wrong data type"),
    "tensor_shape": _refused("an input tensor of the wrong shape"),
    "tensor_size": _refused("an input tensor whose data does not fill its shape"),
    "output_unknown": _refused("a requested output the model does not have"),
    "too_many_rows": _refused("more rows in one request than the server takes"),
    "unauthenticated": ErrorCode(401, "UNAUTHENTICATED", "no API key, or one that is not known"),
    "permission_denied": ErrorCode(403, "PERMISSION_DENIED", "the key does not have the scope this route needs"),
    "tls_required": ErrorCode(403, "PERMISSION_DENIED", "health records are taken over TLS only"),
    "model_not_found": ErrorCode(404, "NOT_FOUND", "no such model is served"),
    "version_not_found": ErrorCode(404, "NOT_FOUND", "the model is served, but not in this version"),
    "route_not_found": ErrorCode(404, "UNIMPLEMENTED", "no such path"),
    "method_not_allowed": ErrorCode(405, "UNIMPLEMENTED", "the path exists, the method does not"),
    "payload_too_large": ErrorCode(413, "RESOURCE_EXHAUSTED", "the body exceeds the server's limit"),
    "unsupported_media_type": ErrorCode(415, "INVALID_ARGUMENT", "a content type or encoding the route does not read"),
    "queue_full": ErrorCode(429, "RESOURCE_EXHAUSTED", "the model's queue is full; retry after the time given"),
    "rate_limited": ErrorCode(429, "RESOURCE_EXHAUSTED", "the key's requests are used up; retry after the time given"),
    "too_many_in_flight": ErrorCode(429, "RESOURCE_EXHAUSTED", "too many requests are being handled; retry shortly"),
    "cancelled": ErrorCode(499, "CANCELLED", "the caller went away; its queued work was dropped"),
    "internal": ErrorCode(500, "INTERNAL", "a fault of the server; the request id finds it in the log"),
    "inference_failed": ErrorCode(500, "INTERNAL", "the model failed on this request alone"),
    "model_not_ready": ErrorCode(503, "UNAVAILABLE", "the model is loading, or its artifact was refused"),
    "load_failed": ErrorCode(409, "FAILED_PRECONDITION", "the artifact could not be loaded; what was served still is"),
    "circuit_open": ErrorCode(503, "UNAVAILABLE", "the model failed repeatedly and is given a pause"),
    "shutting_down": ErrorCode(503, "UNAVAILABLE", "the server is draining; ask another replica"),
    "deadline_exceeded": ErrorCode(504, "DEADLINE_EXCEEDED", "the request's deadline passed before its answer"),
}


_LONGEST = 500  # bytes of a text that may quote the caller; gRPC's trailing metadata has room for about 8 KiB


class ApiError(Exception):
    """A refusal or failure as the caller sees it. `code` is one of CODES."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        retry_after_ms: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = CODES[code]
        self.message = _short(message)
        self.field = None if field is None else _short(field)
        self.hint = None if hint is None else _short(hint)
        self.retry_after_ms = retry_after_ms
        self.headers = headers or {}  # HTTP headers and gRPC metadata that go with the refusal

    @classmethod
    def of(cls, fault: BaseException) -> ApiError:
        """The caller's view of any exception: what is not a stated refusal becomes `internal`, without its text."""
        if isinstance(fault, ApiError):
            return fault
        if isinstance(fault, InputError):
            return cls(fault.code, fault.message, field=fault.field, hint=fault.hint)
        return cls("internal", "the server failed on this request", hint="report the request id to the operator")

    def envelope(self, request_id: str) -> dict[str, Any]:
        """The JSON document of this error."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "field": self.field,
            "hint": self.hint,
            "request_id": request_id,
        }
        if self.retry_after_ms is not None:
            error["retry_after_ms"] = self.retry_after_ms
        return {"error": error}


def _short(text: str) -> str:
    raw = text.encode(errors="replace")
    return text if len(raw) <= _LONGEST else raw[: _LONGEST - 3].decode(errors="ignore") + "..."
