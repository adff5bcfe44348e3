"""From an answer to the exception it stands for.

Both transports carry the same JSON envelope: {"error": {"code", "message", "field", "hint", "request_id",
["retry_after_ms"]}}, as the body over HTTP and in the trailing metadata `pressroom-error-bin` over gRPC. Answers
without it (a proxy's page, another server of the same protocol) are mapped by their status alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from . import _constants as c
from ._error_codes import BY_CODE, Cancelled, DeadlineExceeded, PayloadTooLarge
from ._errors import (
    APIConnectionError,
    APITimeoutError,
    BadRequest,
    Denied,
    NotFound,
    Overloaded,
    PressroomError,
    ServerFault,
    Unavailable,
)

_HTTP_GROUPS: dict[int, type[PressroomError]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    408: Unavailable,
    413: PayloadTooLarge,
    429: Overloaded,
    499: Cancelled,
    502: Unavailable,
    503: Unavailable,
    504: DeadlineExceeded,
}

_GRPC_GROUPS: dict[str, type[PressroomError]] = {
    "INVALID_ARGUMENT": BadRequest,
    "FAILED_PRECONDITION": BadRequest,
    "OUT_OF_RANGE": BadRequest,
    "ALREADY_EXISTS": BadRequest,
    "PERMISSION_DENIED": Denied,
    "UNAUTHENTICATED": Denied,
    "NOT_FOUND": NotFound,
    "UNIMPLEMENTED": NotFound,
    "RESOURCE_EXHAUSTED": Overloaded,
    "UNAVAILABLE": Unavailable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "CANCELLED": Cancelled,
}


def http_error(
    status: int, headers: Mapping[str, str], body: bytes, *, request: str, request_id: str, wall: Callable[[], float]
) -> PressroomError:
    """The exception for an HTTP answer of status 400 or above."""
    envelope = _envelope(body)
    default = _HTTP_GROUPS.get(status, BadRequest if status < 500 else ServerFault)
    return _from_envelope(
        envelope or {"message": _excerpt(status, body)},
        default,
        code=_code(default, f"http_{status}"),
        http_status=status,
        request=request,
        request_id=headers.get(c.REQUEST_ID) or request_id,
        retry_after=_retry_after(headers, envelope, wall),
    )


def grpc_error(
    status: str,
    details: str,
    trailing: Mapping[str, str | bytes],
    *,
    request: str,
    request_id: str,
    wall: Callable[[], float],
) -> PressroomError:
    """The exception for a failed RPC: its status name, its text, its trailing metadata."""
    raw = trailing.get(c.GRPC_ERROR_KEY)
    envelope = _envelope(raw) if isinstance(raw, bytes) else None
    default = _GRPC_GROUPS.get(status, ServerFault) if envelope else _without_envelope(status, details)
    error = _from_envelope(
        envelope or {"message": details or f"the server answered {status}"},
        default,
        code=_code(default, f"grpc_{status.lower()}"),
        grpc_status=status,
        request=request,
        request_id=_text(trailing.get(c.REQUEST_ID.lower())) or request_id,
        retry_after=_retry_after({k: _text(v) for k, v in trailing.items()}, envelope, wall),
    )
    if type(error) is APITimeoutError:
        error.phase = "connect" if status == "UNAVAILABLE" else "read"
    return error


def stream_error(event: bytes, *, request: str, request_id: str) -> PressroomError:
    """The exception for an error that came as an event, after the answer had begun."""
    return _from_envelope(
        _envelope(event) or {}, ServerFault, code="stream_failed", request=request, request_id=request_id
    )


def _code(kind: type[PressroomError], otherwise: str) -> str:
    """The code of a class that has one of its own; groups do not."""
    return kind.code if "code" in kind.__dict__ else otherwise


def _without_envelope(status: str, details: str) -> type[PressroomError]:
    """Statuses the library itself makes: these did not come from a Pressroom server."""
    if status == "UNAVAILABLE":
        # Only grpcio's words tell a connection that was never opened in time from one that was refused.
        late = any(words in details for words in ("timed out", "Timeout occurred", "handshaker shutdown"))
        return APITimeoutError if late else APIConnectionError
    if status == "DEADLINE_EXCEEDED":
        return APITimeoutError
    if status == "RESOURCE_EXHAUSTED" and "larger than max" in details:
        return PayloadTooLarge
    return _GRPC_GROUPS.get(status, ServerFault)


def _from_envelope(
    envelope: Mapping[str, Any],
    default: type[PressroomError],
    *,
    code: str,
    request_id: str,
    **circumstances: Any,
) -> PressroomError:
    code = str(envelope.get("code") or code)
    return BY_CODE.get(code, default)(
        str(envelope.get("message") or "the server gave no reason"),
        code=code,
        field=envelope.get("field"),
        hint=envelope.get("hint"),
        request_id=envelope.get("request_id") or request_id,
        **circumstances,
    )


def _envelope(body: bytes) -> dict[str, Any] | None:
    """The error object of a body; a plain text as other servers of the protocol send counts as a message."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return None
    return error if isinstance(error, dict) else {"message": str(error)}


def _excerpt(status: int, body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())[: c.EXCERPT_CHARACTERS]
    return f"the server answered {status}" + (f": {text}" if text else " without a reason")


def _retry_after(
    headers: Mapping[str, str], envelope: Mapping[str, Any] | None, wall: Callable[[], float]
) -> float | None:
    """Seconds the server asks for: retry-after-ms, the envelope's retry_after_ms, Retry-After (seconds or a date)."""
    for ms in (headers.get("retry-after-ms"), (envelope or {}).get("retry_after_ms")):
        if ms is not None and (value := _number(ms)) is not None:
            return max(value / 1000, 0.0)
    stated = headers.get("retry-after")
    if stated is None:
        return None
    seconds = _number(stated)
    return max(seconds, 0.0) if seconds is not None else _until(stated, wall)


def _until(date: str, wall: Callable[[], float]) -> float | None:
    try:
        return max(parsedate_to_datetime(date).timestamp() - wall(), 0.0)
    except ValueError:
        return None


def _number(text: object) -> float | None:
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if value == value else None


def _text(value: str | bytes | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
