"""multipart/form-data as a task's JSON object: files as bytes, the other fields as JSON.

part `request`             a JSON object: any of the task's fields
a part of the task's files its bytes, whatever its content type says
any other part             its value is JSON, or else text; a part that comes twice makes a list, as does each of
                           the fields the task says are lists
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from services.core.errors import ApiError
from services.core.http.content import read_json_object

MOST_PARTS = 4096
REQUEST = "request"


def read_form(body: bytes, content_type: bytes, files: Sequence[str], lists: Sequence[str]) -> dict[str, Any]:
    """Raises ApiError (invalid_json, invalid_request)."""
    parts = _Parts()
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if not boundary:
        raise ApiError(
            "invalid_request", "the form names no boundary", field="Content-Type", hint="let the client do it"
        )
    try:
        parser = MultipartParser(boundary, parts.callbacks())
        parser.write(body)
        parser.finalize()
    except FormParserError:
        raise ApiError(
            "invalid_json", "the body is no multipart form", hint="end it with the closing boundary"
        ) from None
    if not parts.ended:
        raise ApiError("invalid_json", "the multipart form is cut short", hint="end it with the closing boundary")
    return _as_request(parts.found, files, lists)


def _as_request(parts: list[tuple[str, bytes]], files: Sequence[str], lists: Sequence[str]) -> dict[str, Any]:
    request: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for name, value in parts:
        if name == REQUEST:
            fields = read_json_object(value)
            _check_once(request.keys() & fields.keys())
            request |= fields
        elif name in files:
            _check_once(request.keys() & {name})
            request[name] = value
        else:
            repeated.setdefault(name, []).append(_value(name, value))
    _check_once(request.keys() & repeated.keys())
    for name, values in repeated.items():
        request[name] = values if len(values) > 1 or (name in lists and not isinstance(values[0], list)) else values[0]
    return request


def _check_once(both: set[str]) -> None:
    if both:
        name = min(both)
        raise ApiError("invalid_request", f"the form has {name[:60]!r} twice", field=name, hint="send it once")


def _value(name: str, value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        pass
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ApiError("invalid_request", f"the form's {name[:60]!r} is no text", field=name[:60]) from None


class _Parts:
    """What the parser tells, put together."""

    def __init__(self) -> None:
        self.found: list[tuple[str, bytes]] = []
        self.ended = False
        self._header, self._text, self._disposition = b"", b"", b""
        self._data: list[bytes] = []

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._begin,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._data, self._disposition = [], b""

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self._data.append(data[start:end])

    def _part_end(self) -> None:
        name = parse_options_header(self._disposition)[1].get(b"name")
        if name is None or len(self.found) >= MOST_PARTS:
            what = f"more than {MOST_PARTS} parts" if name else "a part without a name"
            raise ApiError("invalid_request", f"the form has {what}", hint='Content-Disposition: form-data; name="..."')
        self.found.append((name.decode("utf-8", "replace"), b"".join(self._data)))

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._text += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._text
        self._header = self._text = b""

    def _end(self) -> None:
        self.ended = True
