"""An error as gRPC carries it: the envelope in trailing metadata, beside the status."""

from __future__ import annotations

import orjson

from services.core.errors import ApiError
from services.core.http2.headers import Metadata


def error_metadata(error: ApiError, request_id: str) -> Metadata:
    """Trailing metadata of a refusal."""
    metadata: list[tuple[str, str | bytes]] = [
        ("x-request-id", request_id),
        ("pressroom-error-bin", orjson.dumps(error.envelope(request_id))),
        *error.headers.items(),
    ]
    if error.retry_after_ms is not None:
        metadata.append(("retry-after-ms", str(error.retry_after_ms)))
    return tuple(metadata)
