"""Errors of these routes: the one envelope with what OpenAI's clients read beside `code` and `message`.

{"error": {"code", "message", "field", "hint", "request_id", "type", "param"}}
"""

from __future__ import annotations

from typing import Any

from services.core.errors import ApiError

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


def envelope(error: ApiError, request_id: str) -> dict[str, Any]:
    """The JSON document of an error. type: OpenAI's word for its kind; param: the field, under their name."""
    document = error.envelope(request_id)
    status = error.status.http
    kind = _TYPES.get(status, "server_error" if status >= 499 else "invalid_request_error")
    document["error"] |= {"type": kind, "param": error.field}
    return document
