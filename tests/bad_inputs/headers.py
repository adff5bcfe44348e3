"""Headers the server reads, with values it cannot use: over HTTP and as gRPC metadata."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import etth1

from .case import FORECAST, INFER, INFER_CARD, GrpcCase, HttpCase, infer, message, tensor

_GOOD = json.dumps(etth1.request()).encode()
_TENSORS = infer(tensor())
_LIMIT = 16 * 2**20  # the default body limit, bytes
_TIMEOUT, _PRIORITY = "X-Request-Timeout-Ms", "X-Priority"


def _header(name: str, value: str, path: str = FORECAST, body: Any = _GOOD) -> HttpCase:
    return HttpCase(f"{name}: {value[:40]!r}", path, body, 422, "invalid_request", name, headers={name: value})


def _kind(value: str) -> HttpCase:
    return HttpCase(f"Content-Type: {value}", FORECAST, _GOOD, 415, "unsupported_media_type", "Content-Type",
                    headers={"Content-Type": value})  # fmt: skip


def _encoding(value: str, path: str = FORECAST) -> HttpCase:
    return HttpCase(f"Content-Encoding: {value} {path}", path, _GOOD, 415, "unsupported_media_type",
                    "Content-Encoding", headers={"Content-Encoding": value})  # fmt: skip


def _packed(name: str, body: bytes, encoding: str = "gzip", status: int = 400, code: str = "invalid_json") -> HttpCase:
    return HttpCase(name, FORECAST, body, status, code, headers={"Content-Encoding": encoding})


def _large(name: str, path: str, headers: dict[str, str], body: bytes = b"") -> HttpCase:
    return HttpCase(name, path, body, 413, "payload_too_large", headers=headers)


def _pinned(name: str, version: str, path: str = FORECAST) -> HttpCase:
    body = _GOOD if path == FORECAST else _TENSORS
    return HttpCase(name, path, body, 404, "version_not_found", "version", headers={"X-Model-Version": version})


_ASKS = {"Expect": "100-continue"}

CASES = (
    *(_header(_TIMEOUT, value)
      for value in ("0", "-1", "1.5", "1e3", "0x10", "soon", "", "+5", "5 s", "NaN", "1000000000", "9" * 400)),
    _header(_TIMEOUT, "never", INFER, _TENSORS),
    _header(_TIMEOUT, "0", INFER_CARD, _TENSORS),
    *(_header(_PRIORITY, value) for value in ("high", "", "0", "INTERACTIVE", "interactive, batch", "x" * 2000)),
    _header(_PRIORITY, "low", INFER, _TENSORS),
    *map(_kind, (
        "text/plain", "text/json", "application/xml", "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x", "application/octet-stream", "application/x-pickle",
        "application/vnd.x+pickle", "application/jsonl", "json", "application/json-patch+json",
    )),
    *map(_encoding, ("br", "zstd", "compress", "gzip, gzip", "x-gzip", "identity, gzip", "", "*")),
    _encoding("br", INFER),
    _encoding("br", "/v2/repository/index"),
    # compressed bodies
    _packed("plain text said to be gzip", _GOOD),
    _packed("gzip cut short", gzip.compress(_GOOD)[:-20]),
    _packed("gzip with a flipped bit", gzip.compress(_GOOD)[:40] + b"\x00\xff" + gzip.compress(_GOOD)[42:]),
    _packed("a gzip header alone", gzip.compress(b"")[:10]),
    _packed("zlib said to be gzip", zlib.compress(_GOOD)),
    _packed("gzip said to be deflate", gzip.compress(_GOOD), "deflate"),
    _packed("nothing said to be gzip", b""),
    _packed("gzip within gzip", gzip.compress(gzip.compress(_GOOD))),
    _packed("a bomb in gzip", gzip.compress(b" " * (_LIMIT + 1)), "gzip", 413, "payload_too_large"),
    _packed("a bomb in deflate", zlib.compress(b"0" * (4 * _LIMIT)), "deflate", 413, "payload_too_large"),
    # bodies over the limit, from callers that ask first
    _large("one byte over the limit", FORECAST, _ASKS | {"Content-Length": str(_LIMIT + 1)}),
    _large("a gigabyte", INFER, _ASKS | {"Content-Length": str(2**30)}),
    _large("an exabyte", INFER_CARD, _ASKS | {"Content-Length": str(2**60)}),
    _large("a large index", "/v2/repository/index", _ASKS | {"Content-Length": str(2**31)}),
    # versions by header
    _pinned("a pinned version nobody serves", "12"),
    _pinned("a pinned version of text", "stable"),
    _pinned("a pinned version in brackets", "['1']", INFER),
    _pinned("a very long pinned version", "1" * 3000, INFER_CARD),
    # deadlines
    HttpCase("a deadline of one millisecond for a thousand rows", FORECAST,
             etth1.request(*[etth1.series()] * 400), 504, "deadline_exceeded", headers={_TIMEOUT: "1"}),
)  # fmt: skip

_RAW = ("history", "FP32", [1, 96, 7], etth1.history().tobytes())
_MESSAGE = message(_RAW).SerializeToString()


def _metadata(name: str, key: str, value: str, status: str, code: str, field: str) -> GrpcCase:
    return GrpcCase(name, "ModelInfer", _MESSAGE, status, code, field, metadata=((key, value),))


GRPC_CASES = (
    _metadata("an unknown priority", "x-priority", "urgent", "INVALID_ARGUMENT", "invalid_request", "x-priority"),
    _metadata("an empty priority", "x-priority", "", "INVALID_ARGUMENT", "invalid_request", "x-priority"),
    _metadata("a priority in capitals", "x-priority", "BATCH", "INVALID_ARGUMENT", "invalid_request", "x-priority"),
    _metadata("a pinned version nobody serves", "x-model-version", "9", "NOT_FOUND", "version_not_found", "version"),
    _metadata("a pinned version of text", "x-model-version", "v1", "NOT_FOUND", "version_not_found", "version"),
)
