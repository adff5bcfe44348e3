"""What a request body holds: JSON objects, compressed or not."""

from __future__ import annotations

import json
import zlib
from typing import Any

import orjson

from services.core.errors import ApiError

CODINGS = {b"gzip": 31, b"deflate": 15}  # Content-Encoding -> zlib window bits
_NOT_FINITE = (b"NaN", b"Infinity")


def read_json_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object. Raises ApiError (invalid_json, invalid_request).

    NaN and Infinity are not JSON, but many clients write them: they are read here, so that the pipeline can refuse
    them by their place.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as fault:
        document = _with_constants(body) if any(word in body for word in _NOT_FINITE) else None
        if document is None:
            raise ApiError(
                "invalid_json", f"the body is not JSON: {fault.msg} at character {fault.pos}", hint="send UTF-8 JSON"
            ) from None
    if not isinstance(document, dict):
        raise ApiError("invalid_request", "the body must be a JSON object")
    return document


def _with_constants(body: bytes) -> Any:
    """What Python's own reader, which knows NaN and Infinity, makes of the body; None if it is not JSON either.

    It also lets through half characters, endless integers and deep nesting; writing the document again finds those.
    """
    try:
        document = json.loads(body)
        orjson.dumps(document)
    except (ValueError, TypeError, RecursionError):
        return None
    return document


def inflate(body: bytes, coding: bytes, limit: int) -> bytes:
    """Decompress to at most `limit` bytes, whatever the compressed size. Raises ApiError."""
    stream = zlib.decompressobj(CODINGS[coding])
    try:
        plain = stream.decompress(body, limit + 1)
    except zlib.error:
        raise ApiError("invalid_json", "the body is not what its Content-Encoding says") from None
    if len(plain) > limit:
        raise ApiError("payload_too_large", f"the body inflates to more than the limit of {limit} bytes")
    if not stream.eof:
        raise ApiError("invalid_json", "the compressed body is cut short")
    return plain
