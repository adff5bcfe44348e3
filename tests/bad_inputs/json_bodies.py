"""Bodies that are not JSON, or not the JSON object a route reads."""

from __future__ import annotations

import json

import etth1

from .case import FORECAST, INFER, INFER_CARD, HttpCase

_INDEX = "/v2/repository/index"
_GOOD = json.dumps(etth1.request())

_NOT_JSON = {
    "nothing": b"",
    "white space": b" \r\n\t",
    "one brace": b"{",
    "a brace too many": b"{}}",
    "text": b"forecast, please",
    "a form": b"model=card-etth1&horizon=12",
    "XML": b"<request><model>card-etth1</model></request>",
    "YAML": b"model: card-etth1\nseries: []\n",
    "single quotes": b"{'model': 'card-etth1'}",
    "a trailing comma": b'{"model": "card-etth1",}',
    "a comment": b'{"model": "card-etth1" /* newest */}',
    "two documents": b'{"model": "a"}\n{"model": "b"}',
    "UTF-16": '{"model": "card-etth1"}'.encode("utf-16"),
    "Latin-1": '{"model": "modèle"}'.encode("latin-1"),
    "a byte order mark": b"\xef\xbb\xbf" + _GOOD.encode(),
    "half a character": b'{"model": "\\ud83d"}',
    "a raw control character": b'{"model": "card\netth1"}',
    "a zero byte": b'{"model": "card-etth1"}\x00',
    "a hexadecimal number": b'{"horizon": 0x10}',
    "a plus sign": b'{"horizon": +5}',
    "a leading zero": b'{"horizon": 012}',
    "undefined": b'{"model": undefined}',
    "a number without end": b'{"horizon": 1' + b"0" * 400 + b"}",
    "a key without quotes": b'{model: "card-etth1"}',
    "a pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "an npy file": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
    "gzip nobody announced": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xabV\xcaM\xccKL\x07\x00",
    "a good request cut short": _GOOD[: len(_GOOD) // 2].encode(),
    "ten thousand brackets": b"[" * 10_000,
    "two thousand levels": b'{"a":' * 2000 + b"1" + b"}" * 2000,
}
_NO_OBJECT = {
    "a list": b"[]",
    "a list of requests": f"[{_GOOD}]".encode(),
    "a text": b'"card-etth1"',
    "a number": b"42",
    "true": b"true",
    "null": b"null",
    "NaN alone": b"NaN",
    "a list with infinity": b"[Infinity, -Infinity]",
}

CASES = (
    *(HttpCase(name, FORECAST, body, 400, "invalid_json") for name, body in _NOT_JSON.items()),
    *(HttpCase(f"infer: {name}", INFER, _NOT_JSON[name], 400, "invalid_json") for name in list(_NOT_JSON)[:12]),
    *(HttpCase(f"index: {name}", _INDEX, _NOT_JSON[name], 400, "invalid_json") for name in list(_NOT_JSON)[2:8]),
    *(HttpCase(name, FORECAST, body, 422, "invalid_request") for name, body in _NO_OBJECT.items()),
    *(HttpCase(f"infer: {name}", INFER_CARD, body, 422, "invalid_request") for name, body in _NO_OBJECT.items()),
    *(HttpCase(f"index: {name}", _INDEX, _NO_OBJECT[name], 422, "invalid_request") for name in ("a list", "null")),
)
